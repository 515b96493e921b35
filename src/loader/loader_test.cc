// The engine and its public face, over a memory store filled by the formats' own writers.
#include "forebay/loader.h"
#include "base/test_folder.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "base/sanitizer.h"
#include "loader/buffer_pool.h"
#include "loader/engine.h"
#include "loader/sample_cache.h"
#include "loader/stripe.h"
#include "storage/faulty.h"
#include "storage/slow.h"

namespace forebay::loader {
namespace {

using testing::HasSubstr;

// Files of `format` in a store, with an index over them.
class Data {
 public:
  explicit Data(std::string_view format, int files, uint64_t samples_per_file = 1) {
    store = std::move(storage::open_store("memory", "test")).value();
    const formats::Format* f = formats::find_format(format);
    for (int i = 0; i < files; ++i) {
      formats::FileSpec file;
      file.path = fmt::format("img_{:03}.{}", i, format);
      file.rows = 20 + static_cast<uint64_t>(i);
      file.columns = 30;
      file.sample_count = samples_per_file;
      file.seed = static_cast<uint64_t>(i);
      auto writer = std::move(store->create(file.path)).value();
      EXPECT_TRUE(f->write(*writer, store->capabilities().can_patch, file).ok());
      EXPECT_TRUE(writer->publish().ok());
    }
    open(f, samples_per_file);
  }

  void open(const formats::Format* format, uint64_t samples_per_file) {
    dataset::IndexOptions options;
    options.format = format;
    options.samples_per_file = samples_per_file;
    index = std::move(dataset::Index::open(*store, options)).value();
  }

  dataset::Order order(dataset::OrderKind kind = dataset::OrderKind::kFull) const {
    dataset::OrderOptions options;
    options.kind = kind;
    options.sample_count = index->sample_count();
    options.seed = 5;
    options.shard_samples = index->samples_per_file_max();
    return *dataset::Order::make(options);
  }

  // From now on every read takes `latency_ms`.
  void slow_down(int64_t latency_ms) {
    storage::SlowOptions slow;
    slow.latency_ns = latency_ms * 1'000'000;
    store = storage::make_slow_store(std::move(store), slow);
  }

  std::unique_ptr<storage::Store> store;
  std::unique_ptr<dataset::Index> index;
};

std::vector<uint64_t> drain(Engine& engine, uint64_t epoch = 0) {
  std::vector<uint64_t> seen;
  engine.begin_epoch(epoch, 0, UINT64_MAX);
  for (;;) {
    auto batch = engine.next({});
    EXPECT_TRUE(batch.ok()) << batch.error().message;
    if (!batch.ok() || !*batch) return seen;
    for (const LoadedSample& sample : (*batch)->samples()) seen.push_back(sample.sample);
  }
}

class Engines : public testing::TestWithParam<std::tuple<const char*, Payload, bool>> {};

TEST_P(Engines, DeliverEverySampleOnceInTheOrderAsked) {
  const auto [format, payload, keep] = GetParam();
  Data data(format, 23);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.batch_size = 4;
  options.payload = payload;
  options.keep_samples = keep;
  options.decode_threads = 2;
  options.tail = Tail::kAll;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<uint64_t> expected;
    for (uint64_t p = 0; p < 23; ++p) expected.push_back(order.sample_at(epoch, p));
    EXPECT_EQ(drain(*engine, epoch), expected);
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.samples, 69u);
  EXPECT_GT(stats.file_bytes, 0u);
  EXPECT_GT(stats.payload_bytes, 0u);
  EXPECT_EQ(stats.bad_count, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Engines,
    testing::Combine(testing::Values("npz", "npy", "jpeg", "png", "tfrecord", "raw"),
                     testing::Values(Payload::kBytes, Payload::kDecode), testing::Bool()));

class ManySampleFiles : public testing::TestWithParam<const char*> {};

TEST_P(ManySampleFiles, AreReadByRecordInEveryOrder) {
  Data data(GetParam(), 5, 7);
  ASSERT_EQ(data.index->sample_count(), 35u);
  for (const auto kind : {dataset::OrderKind::kSequential, dataset::OrderKind::kWindowed,
                          dataset::OrderKind::kFull}) {
    const dataset::Order order = data.order(kind);
    EngineOptions options;
    options.batch_size = 5;
    options.keep_samples = true;
    options.format.samples_per_file = 7;
    auto engine =
        std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
    std::vector<uint64_t> seen = drain(*engine);
    std::sort(seen.begin(), seen.end());
    std::vector<uint64_t> all(35);
    std::iota(all.begin(), all.end(), uint64_t{0});
    EXPECT_EQ(seen, all);
    if (kind != dataset::OrderKind::kFull) {
      // Each file is read about once: records in windows do not multiply the bytes.
      EXPECT_LE(engine->stats().file_bytes, data.index->summary().bytes * 5 / 4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ManySampleFiles, testing::Values("npz", "npy", "tfrecord"));

class Compressed
    : public testing::TestWithParam<std::tuple<const char*, formats::Compression, Payload, bool>> {
};

// Files whose samples only come together are read once and unpacked once, whatever order they are
// wanted in and whoever wants them late.
TEST_P(Compressed, AreReadAndDecodedOnceForAllTheirSamples) {
  const auto [format, compression, payload, keep] = GetParam();
  auto store = std::move(storage::open_store("memory", "test")).value();
  const formats::Format* f = formats::find_format(format);
  for (int i = 0; i < 6; ++i) {
    formats::FileSpec file{.path = fmt::format("{}.{}", i, format), .rows = 30, .columns = 40};
    file.sample_count = 9;
    file.compression = compression;
    file.seed = static_cast<uint64_t>(i);
    auto writer = std::move(store->create(file.path)).value();
    ASSERT_TRUE(f->write(*writer, store->capabilities().can_patch, file).ok());
    ASSERT_TRUE(writer->publish().ok());
  }
  dataset::IndexOptions index_options;
  index_options.format = f;
  index_options.samples_per_file = 9;
  const auto index = std::move(dataset::Index::open(*store, index_options)).value();
  ASSERT_TRUE(index->is_together());
  dataset::OrderOptions order_options{.kind = dataset::OrderKind::kWindowed, .sample_count = 54};
  order_options.shard_samples = 9;
  order_options.window_shards = 3;
  const auto order = *dataset::Order::make(order_options);
  EngineOptions options;
  options.batch_size = 4;
  options.tail = Tail::kAll;
  options.payload = payload;
  options.keep_samples = keep;
  options.decode_threads = 2;
  options.format.samples_per_file = 9;
  auto engine = std::move(Engine::open(*store, *index, order, options, nullptr)).value();
  EXPECT_EQ(drain(*engine).size(), 54u);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.bad_count, 0u);
  EXPECT_LE(stats.blocks_decoded, 6u);
  // That files cannot be checked in passing shows with the first: it alone is read a second time.
  EXPECT_LE(stats.reads, 7u);
  if (payload == Payload::kBytes || keep) {
    EXPECT_EQ(stats.file_bytes, index->summary().bytes);
  }
}

TEST(SyntheticFiles, AreNotRead) {
  Data data("synthetic", 5, 3);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.batch_size = 4;
  options.tail = Tail::kAll;
  options.format.samples_per_file = 3;
  for (const Payload payload : {Payload::kBytes, Payload::kDecode}) {
    options.payload = payload;
    auto engine =
        std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
    EXPECT_EQ(drain(*engine).size(), 15u);
    EXPECT_EQ(engine->stats().reads, 0u);
    EXPECT_EQ(engine->stats().file_bytes, 0u);
  }
}

// Nothing tells before that such a file cannot be checked in passing.
TEST(CompressedCsv, OfOneSampleAFileIsReadOnceButForOneFile) {
  auto store = std::move(storage::open_store("memory", "test")).value();
  const formats::Format* f = formats::find_format("csv");
  for (int i = 0; i < 24; ++i) {
    formats::FileSpec file{.path = fmt::format("{:02}.csv.gz", i), .rows = 30, .columns = 40};
    file.compression = formats::Compression::kGzip;
    file.seed = static_cast<uint64_t>(i);
    auto writer = std::move(store->create(file.path)).value();
    ASSERT_TRUE(f->write(*writer, store->capabilities().can_patch, file).ok());
    ASSERT_TRUE(writer->publish().ok());
  }
  dataset::IndexOptions index_options;
  index_options.format = f;
  index_options.samples_per_file = 1;
  const auto index = std::move(dataset::Index::open(*store, index_options)).value();
  const auto order = *dataset::Order::make({.sample_count = 24});
  EngineOptions options;
  options.batch_size = 4;
  options.payload = Payload::kDecode;
  options.fetch_depth = 8;
  options.format.samples_per_file = 1;
  auto engine = std::move(Engine::open(*store, *index, order, options, nullptr)).value();
  EXPECT_EQ(drain(*engine).size(), 24u);
  EXPECT_EQ(engine->stats().bad_count, 0u);
  EXPECT_EQ(engine->stats().reads, 25u);
  EXPECT_LE(engine->stats().file_bytes, index->summary().bytes * 26 / 24);
  const uint64_t before = engine->stats().file_bytes;
  EXPECT_EQ(drain(*engine, 1).size(), 24u);
  EXPECT_EQ(engine->stats().file_bytes - before, index->summary().bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Compressed,
    testing::Values(std::tuple{"npz", formats::Compression::kZip, Payload::kDecode, false},
                    std::tuple{"npz", formats::Compression::kZip, Payload::kDecode, true},
                    std::tuple{"npz", formats::Compression::kZip, Payload::kBytes, false},
                    std::tuple{"tfrecord", formats::Compression::kGzip, Payload::kDecode, false},
                    std::tuple{"tfrecord", formats::Compression::kGzip, Payload::kDecode, true},
                    std::tuple{"tfrecord", formats::Compression::kGzip, Payload::kBytes, true}));

class InMemory : public testing::TestWithParam<std::tuple<const char*, uint64_t, Payload, bool>> {};

TEST_P(InMemory, SamplesAreReadInTheFirstEpochOnly) {
  const auto [format, samples, payload, keep] = GetParam();
  Data data(format, 5, samples);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.batch_size = 4;
  options.tail = Tail::kAll;
  options.payload = payload;
  options.keep_samples = keep;
  options.format.samples_per_file = samples;
  const auto reference =
      std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  options.sample_cache = std::move(SampleCache::open(*data.index, 1 << 20)).value();
  const auto engine =
      std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  for (uint64_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(drain(*engine, epoch), drain(*reference, epoch));
  EXPECT_EQ(engine->stats().payload_bytes, reference->stats().payload_bytes);
  EXPECT_EQ(engine->stats().memory_samples, 2 * 5 * samples);
  EXPECT_LE(engine->stats().file_bytes, data.index->summary().bytes);
}

INSTANTIATE_TEST_SUITE_P(Formats, InMemory,
                         testing::Combine(testing::Values("npz", "npy", "jpeg", "tfrecord", "raw"),
                                          testing::Values(1),
                                          testing::Values(Payload::kBytes, Payload::kDecode),
                                          testing::Bool()));
INSTANTIATE_TEST_SUITE_P(Records, InMemory,
                         testing::Combine(testing::Values("tfrecord"), testing::Values(7),
                                          testing::Values(Payload::kBytes, Payload::kDecode),
                                          testing::Bool()));

TEST(Engine, RanksShareAnEpochWithoutOverlap) {
  Data data("raw", 50);
  const dataset::Order order = data.order();
  for (uint64_t world = 1; world <= 16; ++world) {
    std::multiset<uint64_t> seen;
    uint64_t steps = UINT64_MAX;
    for (uint64_t rank = 0; rank < world; ++rank) {
      EngineOptions options;
      options.batch_size = 3;
      options.rank = rank;
      options.world_size = world;
      auto engine =
          std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
      const std::vector<uint64_t> mine = drain(*engine);
      seen.insert(mine.begin(), mine.end());
      if (rank == 0) steps = mine.size() / 3;
      EXPECT_EQ(mine.size(), steps * 3) << "every rank has the same number of whole batches";
    }
    EXPECT_EQ(seen.size(), 50 / (3 * world) * 3 * world);
    EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), seen.size());
  }
}

TEST(Engine, AsReadyDeliversEverySampleOnceInAnyOrder) {
  Data data("npz", 24);
  data.slow_down(1);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.batch_size = 2;
  options.prefetch_batches = 6;
  options.as_ready = true;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  std::vector<uint64_t> seen = drain(*engine);
  std::sort(seen.begin(), seen.end());
  std::vector<uint64_t> all(24);
  std::iota(all.begin(), all.end(), uint64_t{0});
  EXPECT_EQ(seen, all);
}

TEST(Engine, BeginningAtAPositionGivesTheBatchesThatWouldHaveFollowed) {
  Data data("npz", 20);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.batch_size = 2;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  const std::vector<uint64_t> whole = drain(*engine, 4);
  engine->begin_epoch(4, 12, UINT64_MAX);
  std::vector<uint64_t> rest;
  while (auto batch = std::move(engine->next({})).value())
    for (const LoadedSample& s : batch->samples()) rest.push_back(s.sample);
  EXPECT_EQ(rest, std::vector<uint64_t>(whole.begin() + 12, whole.end()));
}

TEST(Engine, AnAbandonedEpochLeavesNothingBehind) {
  Data data("raw", 40);
  data.slow_down(2);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.batch_size = 4;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  for (int i = 0; i < 5; ++i) {
    engine->begin_epoch(0, 0, UINT64_MAX);
    ASSERT_TRUE(engine->next({}).ok());
  }
  EXPECT_EQ(drain(*engine).size(), 40u);
}

// Whatever read fails, the flow ends with a named error, or the sample is skipped and counted.
void fail_read(storage::FaultKind kind, OnError policy, uint64_t k) {
  Data data("npz", 12);
  const dataset::Order order = data.order();
  const auto faulty = storage::make_faulty_store(*data.store, {.kind = kind, .fail_at = k});
  EngineOptions options;
  options.batch_size = 3;
  options.on_error = policy;
  auto engine = std::move(Engine::open(*faulty, *data.index, order, options, nullptr)).value();
  engine->begin_epoch(0, 0, UINT64_MAX);
  uint64_t samples = 0;
  Status ended;
  for (;;) {
    auto batch = engine->next({});
    if (!batch.ok()) ended = batch.error();
    if (!batch.ok() || !*batch) break;
    samples += (*batch)->samples().size();
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(faulty->faults(), 1u);
  if (kind == storage::FaultKind::kCorrupt) {
    EXPECT_LE(stats.bad_count, 1u);  // a flipped bit of a time stamp is covered by no checksum
  } else {
    EXPECT_EQ(stats.bad_count, 1u);
  }
  EXPECT_EQ(ended.ok(), policy != OnError::kRaise || stats.bad_count == 0);
  const uint64_t expected = policy == OnError::kSkip ? 12 - stats.bad_count : 12;
  if (policy != OnError::kRaise) {
    EXPECT_EQ(samples, expected);
  }
  for (const BadRecord& bad : stats.bad_records) EXPECT_THAT(bad.cause, HasSubstr(".npz"));
}

TEST(Engine, EveryFailingReadIsNamedSkippedOrReplaced) {
  using storage::FaultKind;
  for (const FaultKind kind :
       {FaultKind::kError, FaultKind::kShort, FaultKind::kVanish, FaultKind::kCorrupt})
    for (const OnError policy : {OnError::kRaise, OnError::kSkip, OnError::kReplace})
      for (uint64_t k = 1; k <= 12; ++k) {
        SCOPED_TRACE(fmt::format("kind {} policy {} read {}", static_cast<int>(kind),
                                 static_cast<int>(policy), k));
        fail_read(kind, policy, k);
      }
}

TEST(Engine, AllowanceOfBadRecordsEndsTheFlow) {
  Data data("npz", 10);
  for (int i = 0; i < 5; ++i) {
    const std::vector<std::byte> junk(900, std::byte{7});
    ASSERT_TRUE(storage::write_file(*data.store, fmt::format("img_{:03}.npz", i), junk).ok());
  }
  data.open(formats::find_format("npz"), 1);
  const dataset::Order order = data.order(dataset::OrderKind::kSequential);
  EngineOptions options;
  options.batch_size = 5;
  options.on_error = OnError::kSkip;
  options.errors_max = 3;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  engine->begin_epoch(0, 0, UINT64_MAX);
  const auto batch = engine->next({});
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(batch.error().message, HasSubstr("more than 3 bad records"));
}

TEST(Engine, ReplaceFillsTheBatchFromItsOwnGoodSamples) {
  Data data("npz", 8);
  const std::vector<std::byte> junk(900, std::byte{7});
  ASSERT_TRUE(storage::write_file(*data.store, "img_002.npz", junk).ok());
  data.open(formats::find_format("npz"), 1);
  const dataset::Order order = data.order(dataset::OrderKind::kSequential);
  EngineOptions options;
  options.batch_size = 4;
  options.on_error = OnError::kReplace;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  engine->begin_epoch(0, 0, UINT64_MAX);
  auto batch = std::move(engine->next({})).value();
  ASSERT_EQ(batch->samples().size(), 4u);
  EXPECT_EQ(std::count_if(batch->samples().begin(), batch->samples().end(),
                          [](const LoadedSample& s) { return s.is_replaced; }),
            1);
}

TEST(Engine, StopReleasesAWaitingConsumer) {
  Data data("raw", 4);
  data.slow_down(60'000);
  const dataset::Order order = data.order();
  EngineOptions options;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  engine->begin_epoch(0, 0, UINT64_MAX);
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  const auto batch = engine->next(stop.get_token());
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.error().code, ErrorCode::kCancelled);
}

TEST(Engine, ManyShortWaitsStallAsOneLongWaitDoes) {
  Data data("raw", 4);
  data.slow_down(60'000);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.stall_limit_ns = 100'000'000;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  engine->begin_epoch(0, 0, UINT64_MAX);
  for (int turn = 0; turn < 1000; ++turn) {
    std::stop_source stop;
    std::jthread stopper([&] {
      base::monotonic_clock().sleep_until_ns(base::monotonic_clock().now_ns() + 5'000'000, {});
      stop.request_stop();
    });
    const auto batch = engine->next(stop.get_token());
    ASSERT_FALSE(batch.ok());
    if (batch.error().code == ErrorCode::kCancelled) continue;
    EXPECT_THAT(batch.error().message, HasSubstr("no batch for"));
    return;
  }
  FAIL() << "a thousand waits of 5 ms, and no stall";
}

TEST(Engine, ManyShortWaitsAreExplainedAsOneLongWaitIs) {
  Data data("raw", 4);
  data.slow_down(200);
  const dataset::Order order = data.order();
  EngineOptions options;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  engine->begin_epoch(0, 0, UINT64_MAX);
  for (int stopped = 0;; ++stopped) {
    std::stop_source stop;
    std::jthread stopper([&] {
      base::monotonic_clock().sleep_until_ns(base::monotonic_clock().now_ns() + 10'000'000, {});
      stop.request_stop();
    });
    const auto batch = engine->next(stop.get_token());
    if (!batch.ok()) continue;
    ASSERT_GT(stopped, 3);
    break;
  }
  const EngineStats stats = engine->stats();
  EXPECT_GT(stats.wait_fetch_ns, stats.consumer_wait_ns / 2);
}

TEST(Engine, AStalledReadIsAnErrorThatNamesTheFile) {
  Data data("raw", 4);
  data.slow_down(60'000);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.stall_limit_ns = 100'000'000;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  engine->begin_epoch(0, 0, UINT64_MAX);
  const auto batch = engine->next({});
  ASSERT_FALSE(batch.ok());
  EXPECT_THAT(batch.error().message, HasSubstr("img_"));
}

TEST(Engine, WindowBoundsWhatIsReadAhead) {
  Data data("jpeg", 60);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.batch_size = 30;
  options.window_bytes = 8192;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  EXPECT_EQ(drain(*engine).size(), 60u);
  // One 4 KiB page per small file in flight, and one more that was being handed over.
  EXPECT_LE(engine->stats().buffer_bytes_max, 64u * 1024);
}

// Such files are checked in passing from the first batch on, while no check has passed yet.
TEST(Engine, FilesLargerThanTheWindowAreNotHeldToBeChecked) {
  Data data("npz", 12);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.batch_size = 4;
  options.fetch_depth = 4;
  options.window_bytes = 512;  // a file has more than 600 bytes
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  EXPECT_EQ(drain(*engine).size(), 12u);
  EXPECT_EQ(engine->stats().reads, 12u);
  EXPECT_EQ(engine->stats().buffer_bytes_max, 0u);
}

TEST(Engine, ARecordLargerThanMemoryAllowsIsABadRecord) {
  Data data("jpeg", 6);
  const dataset::Order order = data.order(dataset::OrderKind::kSequential);
  EngineOptions options;
  options.batch_size = 6;
  options.on_error = OnError::kSkip;
  options.record_bytes_max = data.index->file_bytes(5) - 1;  // the largest one is too large
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  engine->begin_epoch(0, 0, UINT64_MAX);
  EXPECT_LT(std::move(engine->next({})).value()->samples().size(), 6u);
  EXPECT_THAT(engine->stats().bad_records.at(0).cause, HasSubstr("more than memory allows"));
}

TEST(Engine, RefusesOptionsOutOfRange) {
  Data data("raw", 2);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.batch_size = 0;
  EXPECT_EQ(Engine::open(*data.store, *data.index, order, options, nullptr).error().code,
            ErrorCode::kInvalidArgument);
  options = {};
  options.rank = 1;
  EXPECT_FALSE(Engine::open(*data.store, *data.index, order, options, nullptr).ok());
}

TEST(Batch, WaitIsSplitByWhatItsLastSampleWasDoing) {
  // 10 ms latency, no decoding: all of the wait is fetch.
  Data data("raw", 2);
  data.slow_down(10);
  const dataset::Order order = data.order();
  EngineOptions options;
  options.payload = Payload::kBytes;
  auto engine = std::move(Engine::open(*data.store, *data.index, order, options, nullptr)).value();
  engine->begin_epoch(0, 0, UINT64_MAX);
  auto batch = std::move(engine->next({})).value();
  const Batch::Wait wait = batch->explain_wait(batch->ready_ns() - 5'000'000, batch->ready_ns());
  EXPECT_EQ(wait.fetch_ns + wait.decode_ns, 5'000'000);
  EXPECT_EQ(wait.decode_ns, 0);
}

TEST(Stripe, CoversEachSampleOnceForAllCountsRanksAndBatches) {
  for (uint64_t count : {0, 1, 2, 7, 11, 64, 145, 100})
    for (uint64_t world = 1; world <= 7; ++world)
      for (uint64_t batch : {1, 2, 3, 16})
        for (const Tail tail : {Tail::kDrop, Tail::kEven, Tail::kAll}) {
          const Stripe stripe{count, 0, batch, world, tail};
          std::set<uint64_t> seen;
          uint64_t total = 0, fewest = UINT64_MAX, most = 0;
          for (uint64_t rank = 0; rank < world; ++rank) {
            fewest = std::min(fewest, stripe.steps(rank));
            most = std::max(most, stripe.steps(rank));
            for (uint64_t step = 0; step < stripe.steps(rank); ++step) {
              EXPECT_GT(stripe.batch_samples(step, rank), 0u);
              for (uint64_t slot = 0; slot < stripe.batch_samples(step, rank); ++slot, ++total)
                seen.insert(stripe.position(step, rank, slot));
            }
          }
          EXPECT_EQ(seen.size(), total);
          if (tail == Tail::kAll) {
            EXPECT_EQ(total, count);
          } else {
            EXPECT_EQ(fewest, most);
          }
        }
}

TEST(BufferPool, ReusesBuffersAndOutlivesItself) {
  BufferRef kept;
  {
    BufferPool pool(1 << 20);
    const std::byte* first = pool.acquire(5000)->data;
    EXPECT_EQ(pool.acquire(5000)->data, first);
    EXPECT_EQ(pool.bytes_in_use(), 0u);
    kept = pool.acquire(100);
  }
  kept->data[0] = std::byte{1};
}

// What is kept holds what was written to it; what was given up does not.
TEST(BufferPool, SizesOfATimeThatIsOverGiveWayToThoseInDemand) {
  if (base::kHasAddressSanitizer) GTEST_SKIP() << "malloc() writes to what it is given back";
  BufferPool pool(1 << 20);
  const auto hold = [&](size_t bytes) {
    std::vector<BufferRef> out;
    for (size_t at = 0; at < (1 << 20); at += bytes) out.push_back(pool.acquire(bytes));
    return out;
  };
  hold(64 << 10);
  for (const BufferRef& buffer : hold(128 << 10)) buffer->data[0] = std::byte{42};
  for (const BufferRef& buffer : hold(128 << 10)) EXPECT_EQ(buffer->data[0], std::byte{42});
  for (const BufferRef& buffer : hold(64 << 10)) EXPECT_EQ(buffer->data[0], std::byte{0});
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_LE(pool.bytes_held_max(), size_t{2} << 20);
}

uint64_t resident_bytes() {
  uint64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * 4096;
}

// An allocator keeps some of what each thread has freed: the pool's bound would be several times as
// much for the system.
TEST(BufferPool, WhatItDoesNotKeepIsTheSystemsAgain) {
  const uint64_t before = resident_bytes();
  BufferPool pool(0);
  // Small things that live on lie between, as they do in a program.
  std::array<std::vector<std::unique_ptr<char[]>>, 6> small;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::jthread> threads;
    for (auto& mine : small)
      threads.emplace_back([&pool, &mine] {
        std::vector<BufferRef> buffers;
        for (size_t size = 6 << 20; size > 1 << 20; size -= 700'000) {
          buffers.push_back(pool.acquire(size));
          std::fill_n(buffers.back()->data, size, std::byte{1});
          mine.push_back(std::make_unique<char[]>(5000));
        }
      });
  }
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  if (!base::kIsSanitized) {
    EXPECT_LT(resident_bytes(), before + (8 << 20));
  }
}

// --- the public face ---

class LoaderOnFiles : public testing::Test {
 protected:
  void SetUp() override {
    auto store = std::move(storage::open_store("local", folder_)).value();
    for (int i = 0; i < 13; ++i) {
      formats::FileSpec file{.path = fmt::format("class{}/{:02}.npy", i % 3, i),
                             .rows = 4,
                             .columns = 5,
                             .seed = static_cast<uint64_t>(i)};
      auto writer = std::move(store->create(file.path)).value();
      ASSERT_TRUE(formats::find_format("npy")->write(*writer, true, file).ok());
      ASSERT_TRUE(writer->publish().ok());
    }
  }

  LoaderOptions options() const {
    LoaderOptions options;
    options.data = folder_;
    options.batch_size = 3;
    options.shuffle = Shuffle::kFull;
    options.seed = 11;
    options.tail = forebay::Tail::kAll;
    return options;
  }

  static std::vector<uint64_t> ids(Loader& loader, int batches) {
    std::vector<uint64_t> seen;
    for (int i = 0; i < batches; ++i) {
      auto batch = std::move(loader.next()).value();
      if (!batch) continue;
      for (const Sample& sample : batch->samples()) seen.push_back(sample.id);
    }
    return seen;
  }

  const base::TestFolder own_{"loader"};
  const std::string folder_ = own_ / "data";
};

TEST_F(LoaderOnFiles, GivesShapesPathsAndBytes) {
  auto loader = std::move(Loader::open(options())).value();
  EXPECT_EQ(loader->sample_count(), 13u);
  EXPECT_EQ(loader->batches_per_epoch(), 5u);
  EXPECT_EQ(loader->order_entropy(), 1);
  auto batch = std::move(loader->next()).value();
  for (const Sample& sample : batch->samples()) {
    EXPECT_THAT(std::string(sample.path), HasSubstr(".npy"));
    EXPECT_EQ(sample.element_type, "uint8");
    uint64_t elements = 1;
    for (const uint64_t side : sample.shape) elements *= side;
    EXPECT_EQ(sample.bytes.size(), elements);
  }
}

TEST_F(LoaderOnFiles, ResumesExactlyWhereAnotherStopped) {
  auto whole = std::move(Loader::open(options())).value();
  const std::vector<uint64_t> all = ids(*whole, 12);  // two epochs and their ends
  for (int stop_after = 0; stop_after < 12; ++stop_after) {
    auto first = std::move(Loader::open(options())).value();
    std::vector<uint64_t> seen = ids(*first, stop_after);
    auto second = std::move(Loader::open(options())).value();
    ASSERT_TRUE(second->restore(*first->state()).ok());
    const std::vector<uint64_t> rest = ids(*second, 12 - stop_after);
    seen.insert(seen.end(), rest.begin(), rest.end());
    EXPECT_EQ(seen, all) << "stopped after " << stop_after;
  }
}

TEST_F(LoaderOnFiles, AnotherBatchAndWorldSizeGetExactlyTheRest) {
  for (const uint64_t world : {1, 2, 3})
    for (const uint64_t batch : {1, 2, 4}) {
      auto first = std::move(Loader::open(options())).value();
      std::vector<uint64_t> seen = ids(*first, 2);
      const LoaderState state = *first->state();
      for (uint64_t rank = 0; rank < world; ++rank) {
        LoaderOptions other = options();
        other.batch_size = batch;
        other.world_size = world;
        other.rank = rank;
        auto second = std::move(Loader::open(other)).value();
        ASSERT_TRUE(second->restore(state).ok());
        while (auto more = std::move(second->next()).value())
          for (const Sample& sample : more->samples()) seen.push_back(sample.id);
      }
      std::sort(seen.begin(), seen.end());
      std::vector<uint64_t> all(13);
      std::iota(all.begin(), all.end(), uint64_t{0});
      EXPECT_EQ(seen, all) << "world " << world << " batch " << batch;
    }
}

TEST_F(LoaderOnFiles, HoldingEveryBatchIsAnErrorNotAHang) {
  LoaderOptions fixed = options();
  fixed.fetch_depth = 4;  // a tuned loader may have more under way
  auto loader = std::move(Loader::open(fixed)).value();
  std::vector<forebay::Batch> held;
  for (int i = 0; i < 3; ++i) held.push_back(*std::move(loader->next()).value());
  const auto more = loader->next();
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(LoaderOnFiles, AsReadyCannotBeSavedMidEpoch) {
  LoaderOptions ready = options();
  ready.as_ready = true;
  auto loader = std::move(Loader::open(ready)).value();
  EXPECT_TRUE(loader->state().ok());
  ids(*loader, 1);
  EXPECT_EQ(loader->state().error().code, ErrorCode::kUnsupported);
}

TEST_F(LoaderOnFiles, RefusesAStateOfAnotherDataSet) {
  auto loader = std::move(Loader::open(options())).value();
  LoaderState state = *loader->state();
  state.fingerprint ^= 1;
  EXPECT_THAT(loader->restore(state).error().message, HasSubstr("another data set"));
}

TEST_F(LoaderOnFiles, SaysWhatItFoundWhenThereAreNoSamples) {
  LoaderOptions other = options();
  other.format = "jpeg";
  const auto loader = Loader::open(other);
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(loader.error().message, HasSubstr("no samples"));
}

}  // namespace
}  // namespace forebay::loader
