// Blocks: read in parts, decoded once, given to every sample that wants them. Over a small format
// of the test's own, whose samples say which they are and whose decoder counts.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "loader/engine.h"
#include "loader/sample_cache.h"
#include "storage/faulty.h"
#include "storage/slow.h"

namespace forebay::loader {
namespace {

using formats::Block;
using formats::FileIndex;
using testing::HasSubstr;

// --- the format: 8 bytes a sample, its number in the file xor kMask; fill values are kFill ---

constexpr uint64_t kMask = 0x5a5a5a5a5a5a5a5a, kFill = 77, kBad = 0xbadbadbad;

std::atomic<int> decodes{0};
std::atomic<int64_t> decode_ms{0};

class NumberBlock : public formats::DecodedBlock {
 public:
  explicit NumberBlock(std::vector<uint64_t> values) : values_(std::move(values)) {}
  // Sample sizes vary: 4 to 8 bytes are given out.
  Result<formats::Record> at(uint64_t sample) const override {
    if (values_[sample] == kBad) return fail(ErrorCode::kCorruption, "one.block: sample is bad");
    const auto bytes = std::as_bytes(std::span(&values_[sample], 1));
    return formats::Record{.bytes = bytes.first(4 + values_[sample] % 5)};
  }
  uint64_t bytes() const override { return values_.size() * 8; }

 private:
  std::vector<uint64_t> values_;
};

class NumberReader : public formats::Reader {
 public:
  Result<formats::Record> read(std::string_view path, std::span<const std::byte>, const FileIndex&,
                               uint64_t) override {
    return fail(ErrorCode::kUnsupported, "{}: blocks only", path);
  }
  Result<std::shared_ptr<const formats::DecodedBlock>> decode_block(
      std::string_view path, std::span<const std::byte> bytes, const FileIndex& index,
      const Block& block) override {
    ++decodes;
    base::Clock& clock = base::monotonic_clock();
    if (decode_ms > 0) clock.sleep_until_ns(clock.now_ns() + decode_ms * 1'000'000, {});
    EXPECT_EQ(index.detail, "masked");
    std::vector<uint64_t> values(block.sample_count, kFill);
    if (!block.extents.empty()) {
      if (bytes.size() != block.sample_count * 8)
        return fail(ErrorCode::kCorruption, "{}: {} bytes", path, bytes.size());
      std::memcpy(values.data(), bytes.data(), bytes.size());
      for (uint64_t i = 0; i < values.size(); ++i) {
        values[i] ^= kMask;
        if (values[i] != block.first_sample + i && values[i] != kBad)
          return fail(ErrorCode::kCorruption, "{}: sample {} is {}", path, i, values[i]);
      }
    }
    return std::shared_ptr<const formats::DecodedBlock>(
        std::make_shared<NumberBlock>(std::move(values)));
  }
};

// What lies in a file: samples per block; 0 parts = fill values only.
struct Shape {
  std::vector<uint64_t> samples;
  uint64_t parts = 1;
  uint64_t fill_block = UINT64_MAX;
};
Shape shape_now;  // what index() answers

// Blocks lie back to front, the parts of a block back to front too, with a gap of 3 bytes.
std::vector<Block> lay_out(const Shape& shape, std::vector<std::byte>* bytes) {
  std::vector<Block> blocks;
  uint64_t first = 0;
  for (const uint64_t count : shape.samples) {
    blocks.push_back({first, count, {}});
    first += count;
  }
  uint64_t end = 0;
  for (size_t b = blocks.size(); b-- > 0;) {
    Block& block = blocks[b];
    if (b == shape.fill_block) continue;
    const uint64_t parts = std::min(shape.parts, block.sample_count);
    block.extents.resize(parts);
    for (uint64_t part = parts; part-- > 0;) {
      const uint64_t from = block.sample_count * part / parts;
      const uint64_t to = block.sample_count * (part + 1) / parts;
      end += 3;
      block.extents[part] = {end, (to - from) * 8};
      if (bytes != nullptr) {
        bytes->resize(end + (to - from) * 8);
        for (uint64_t i = from; i < to; ++i) {
          const uint64_t value = (block.first_sample + i) ^ kMask;
          std::memcpy(bytes->data() + end + (i - from) * 8, &value, 8);
        }
      }
      end += (to - from) * 8;
    }
  }
  return blocks;
}

const formats::Format& number_format() {
  static constexpr std::string_view kExtensions[] = {"block"};
  static const formats::Format kFormat = [] {
    formats::Format format{};
    format.name = "numbers";
    format.extensions = kExtensions;
    format.recognises = [](std::span<const std::byte>) { return false; };
    format.index = [](storage::Store&, const storage::FileInfo&,
                      const formats::FormatOptions&) -> Result<FileIndex> {
      FileIndex index{.access = formats::Access::kBlocks};
      index.blocks = lay_out(shape_now, nullptr);
      index.sample_count =
          std::accumulate(shape_now.samples.begin(), shape_now.samples.end(), uint64_t{0});
      index.detail = "masked";
      return index;
    };
    format.make_reader = [](const formats::FormatOptions&) -> std::unique_ptr<formats::Reader> {
      return std::make_unique<NumberReader>();
    };
    return format;
  }();
  return kFormat;
}

class Blocks : public testing::Test {
 protected:
  void SetUp() override {
    decodes = 0;
    decode_ms = 0;
  }

  void make(const Shape& shape, int files) {
    shape_now = shape;
    store = std::move(storage::open_store("memory", "test")).value();
    std::vector<std::byte> bytes;
    lay_out(shape, &bytes);
    bytes.push_back(std::byte{1});
    for (int i = 0; i < files; ++i)
      ASSERT_TRUE(storage::write_file(*store, fmt::format("f{:02}.block", i), bytes).ok());
    dataset::IndexOptions options;
    options.format = &number_format();
    index = std::move(dataset::Index::open(*store, options)).value();
    per_file = index->samples_per_file_max();
  }

  dataset::Order order(dataset::OrderKind kind, uint64_t window = 1) const {
    dataset::OrderOptions options;
    options.kind = kind;
    options.sample_count = index->sample_count();
    options.seed = 5;
    options.shard_samples = per_file;
    options.window_shards = window;
    return *dataset::Order::make(options);
  }

  std::unique_ptr<Engine> open(const dataset::Order& by, const EngineOptions& options) {
    return open(by, options, *store);
  }
  std::unique_ptr<Engine> open(const dataset::Order& by, const EngineOptions& options,
                               storage::Store& from) {
    return std::move(Engine::open(from, *index, by, options, nullptr)).value();
  }

  uint64_t value_of(uint64_t sample) const {
    const uint64_t in_file = sample % per_file;
    const auto& blocks = index->file_index(0).blocks;
    for (size_t b = 0; b < blocks.size(); ++b)
      if (in_file >= blocks[b].first_sample &&
          in_file < blocks[b].first_sample + blocks[b].sample_count && b == shape_now.fill_block)
        return kFill;
    return in_file;
  }

  // The samples in the order they came; checks the bytes of kept ones.
  std::vector<uint64_t> drain(Engine& engine, bool is_kept = false, uint64_t epoch = 0,
                              uint64_t first = 0) {
    std::vector<uint64_t> seen;
    engine.begin_epoch(epoch, first, UINT64_MAX);
    for (;;) {
      auto batch = engine.next({});
      EXPECT_TRUE(batch.ok()) << batch.error().message;
      if (!batch.ok() || !*batch) return seen;
      for (const LoadedSample& sample : (*batch)->samples()) {
        seen.push_back(sample.sample);
        if (is_kept) check(sample);
      }
    }
  }

  void check(const LoadedSample& sample) const {
    const uint64_t expected = value_of(sample.sample);
    ASSERT_EQ(sample.data.bytes.size(), 4 + expected % 5);
    uint64_t value = 0;
    std::memcpy(&value, sample.data.bytes.data(), sample.data.bytes.size());
    EXPECT_EQ(value, expected);
    EXPECT_NE(sample.owner, nullptr);
  }

  std::vector<uint64_t> all() const {
    std::vector<uint64_t> numbers(index->sample_count());
    std::iota(numbers.begin(), numbers.end(), uint64_t{0});
    return numbers;
  }

  std::unique_ptr<storage::Store> store;
  std::unique_ptr<dataset::Index> index;
  uint64_t per_file = 1;
};

const Shape kUneven{{5, 1, 700, 30, 64}, 3, UINT64_MAX};

TEST_F(Blocks, AreReadAndDecodedOnceAnEpochForAllTheirSamples) {
  make(kUneven, 4);
  ASSERT_EQ(index->sample_count(), 3200u);
  for (const auto kind :
       {dataset::OrderKind::kSequential, dataset::OrderKind::kWindowed, dataset::OrderKind::kFull})
    for (const Payload payload : {Payload::kBytes, Payload::kDecode})
      for (const bool keep : {false, true})
        for (const int threads : {1, 3}) {
          SCOPED_TRACE(fmt::format("order {} payload {} keep {} threads {}", static_cast<int>(kind),
                                   static_cast<int>(payload), keep, threads));
          decodes = 0;
          const dataset::Order by = order(kind, 2);
          EngineOptions options;
          options.batch_size = 17;
          options.tail = Tail::kAll;
          options.payload = payload;
          options.keep_samples = keep;
          options.decode_threads = threads;
          const auto engine = open(by, options);
          for (uint64_t epoch = 0; epoch < 2; ++epoch) {
            std::vector<uint64_t> expected;
            for (uint64_t p = 0; p < 3200; ++p) expected.push_back(by.sample_at(epoch, p));
            ASSERT_EQ(drain(*engine, keep && payload == Payload::kDecode, epoch), expected);
          }
          // The cache could hold them all, but an epoch is a visit to the storage: what stays in
          // memory beyond it is asked for (read_type: memory), not an accident of sizes.
          EXPECT_EQ(decodes, payload == Payload::kBytes ? 0 : 2 * 20);
          const EngineStats stats = engine->stats();
          EXPECT_EQ(stats.reads, 2 * 4u * (3 + 1 + 3 + 3 + 3));
          EXPECT_EQ(stats.file_bytes, 2 * 3200u * 8);
          uint64_t bytes = 0;
          for (uint64_t i = 0; i < 800; ++i) bytes += 4 + i % 5;
          if (payload == Payload::kDecode) {
            EXPECT_EQ(stats.payload_bytes, 2 * 4 * bytes);
          } else if (!keep) {
            EXPECT_EQ(stats.payload_bytes, 2u * 3200 * 8);
          }
        }
}

TEST_F(Blocks, GiveEveryByteOfAReadToABatch) {
  make({{7, 7, 7}, 2}, 3);
  const dataset::Order by = order(dataset::OrderKind::kSequential);
  EngineOptions options;
  options.batch_size = 5;
  options.tail = Tail::kAll;
  const auto engine = open(by, options);
  engine->begin_epoch(0, 0, UINT64_MAX);
  uint64_t bytes = 0;
  while (auto batch = std::move(engine->next({})).value()) bytes += batch->file_bytes();
  EXPECT_EQ(bytes, 63u * 8);
}

TEST_F(Blocks, PartsThatTouchBecomeOneRead) {
  make({{8}, 1}, 1);
  Block block{0, 8, {{3, 16}, {19, 16}, {35, 32}}};
  shape_now = {};
  // The same bytes, described in three parts that touch.
  static Block described;
  described = block;
  formats::Format format = number_format();
  format.index = [](storage::Store&, const storage::FileInfo&,
                    const formats::FormatOptions&) -> Result<FileIndex> {
    FileIndex answer{.access = formats::Access::kBlocks, .sample_count = 8};
    answer.blocks = {described};
    answer.detail = "masked";
    return answer;
  };
  dataset::IndexOptions index_options;
  index_options.format = &format;
  index = std::move(dataset::Index::open(*store, index_options)).value();
  const dataset::Order by = order(dataset::OrderKind::kSequential);
  EngineOptions options;
  options.batch_size = 8;
  EXPECT_EQ(drain(*open(by, options)), all());
  const auto counted = open(by, options);
  drain(*counted);
  EXPECT_EQ(counted->stats().reads, 1u);
  options.coalesce_bytes = 40;
  const auto split = open(by, options);
  drain(*split);
  EXPECT_EQ(split->stats().reads, 2u);
}

TEST_F(Blocks, OfFillValuesNeedNoReadButAreDecoded) {
  make({{4, 6, 4}, 2, 1}, 2);
  for (const bool keep : {false, true})
    for (const Payload payload : {Payload::kBytes, Payload::kDecode}) {
      decodes = 0;
      const dataset::Order by = order(dataset::OrderKind::kSequential);
      EngineOptions options;
      options.batch_size = 1;  // the fill block's batches are finished while they are issued
      options.payload = payload;
      options.keep_samples = keep;
      const auto engine = open(by, options);
      EXPECT_EQ(drain(*engine, keep && payload == Payload::kDecode), all());
      EXPECT_EQ(engine->stats().reads, 8u);
      EXPECT_EQ(decodes, payload == Payload::kBytes ? 0 : 6);
    }
}

// Samples wanted while the block is being read, being decoded, or done.
TEST_F(Blocks, LateSamplesJoinWhateverTheBlockIsDoing) {
  make({{200}, 4}, 2);
  for (const int latency_ms : {0, 5})
    for (const int slow_decode_ms : {0, 20})
      for (const bool keep : {false, true}) {
        decodes = 0;
        decode_ms = slow_decode_ms;
        storage::SlowOptions slow;
        slow.latency_ns = latency_ms * 1'000'000;
        const auto slow_store = storage::make_slow_store(
            std::move(storage::open_store("memory", "test")).value(), slow);
        std::vector<std::byte> bytes;
        lay_out(shape_now, &bytes);
        bytes.push_back(std::byte{1});
        for (const char* path : {"f00.block", "f01.block"})
          ASSERT_TRUE(storage::write_file(*slow_store, path, bytes).ok());
        const dataset::Order by = order(dataset::OrderKind::kWindowed, 2);
        EngineOptions options;
        options.batch_size = 3;
        options.prefetch_batches = 5;
        options.decode_threads = 2;
        options.tail = Tail::kAll;
        options.keep_samples = keep;
        const auto engine = open(by, options, *slow_store);
        EXPECT_EQ(drain(*engine, keep).size(), 400u);
        EXPECT_EQ(decodes, 2);
      }
}

TEST_F(Blocks, ThatCannotBeDecodedAreBadRecordsOfTheirSamples) {
  make({{10, 20, 10}, 2}, 2);
  // Damages the middle block of the second file.
  std::vector<std::byte> bytes = std::move(storage::read_file(*store, "f01.block")).value();
  bytes[index->file_index(1).blocks[1].extents[0].offset] ^= std::byte{1};
  ASSERT_TRUE(storage::write_file(*store, "f01.block", bytes).ok());
  for (const bool keep : {false, true})
    for (const OnError policy : {OnError::kRaise, OnError::kSkip, OnError::kReplace}) {
      const dataset::Order by = order(dataset::OrderKind::kWindowed);
      EngineOptions options;
      options.batch_size = 40;
      options.tail = Tail::kAll;
      options.on_error = policy;
      options.keep_samples = keep;
      const auto engine = open(by, options);
      engine->begin_epoch(0, 0, UINT64_MAX);
      uint64_t samples = 0;
      Status ended;
      for (;;) {
        auto batch = engine->next({});
        if (!batch.ok()) ended = batch.error();
        if (!batch.ok() || !*batch) break;
        samples += (*batch)->samples().size();
        for (const LoadedSample& sample : (*batch)->samples())
          if (keep) check(sample);
      }
      if (policy == OnError::kRaise) {
        ASSERT_FALSE(ended.ok());
        EXPECT_THAT(ended.error().message, HasSubstr("f01.block"));
        continue;
      }
      EXPECT_TRUE(ended.ok());
      EXPECT_EQ(samples, policy == OnError::kSkip ? 60u : 80u);
      EXPECT_EQ(engine->stats().bad_count, 20u);
      EXPECT_THAT(engine->stats().bad_records.at(0).path, "f01.block");
    }
}

TEST_F(Blocks, ABadSampleOfAGoodBlockIsAlone) {
  make({{10}, 1}, 1);
  std::vector<std::byte> bytes = std::move(storage::read_file(*store, "f00.block")).value();
  const uint64_t bad = kBad ^ kMask;
  std::memcpy(bytes.data() + index->file_index(0).blocks[0].extents[0].offset + 4 * 8, &bad, 8);
  ASSERT_TRUE(storage::write_file(*store, "f00.block", bytes).ok());
  for (const bool keep : {false, true}) {
    const dataset::Order by = order(dataset::OrderKind::kSequential);
    EngineOptions options;
    options.batch_size = 5;
    options.on_error = OnError::kSkip;
    options.keep_samples = keep;
    const auto engine = open(by, options);
    EXPECT_EQ(drain(*engine, keep), (std::vector<uint64_t>{0, 1, 2, 3, 5, 6, 7, 8, 9}));
    EXPECT_EQ(engine->stats().bad_count, 1u);
    EXPECT_EQ(engine->stats().bad_records.at(0).sample, 4u);
  }
}

// Whichever part of a block cannot be read, its samples are named and no others.
TEST_F(Blocks, EveryFailingReadIsNamedSkippedOrReplaced) {
  make({{6, 6}, 3}, 2);
  using storage::FaultKind;
  for (const FaultKind kind : {FaultKind::kError, FaultKind::kShort, FaultKind::kVanish})
    for (const OnError policy : {OnError::kRaise, OnError::kSkip, OnError::kReplace})
      for (const bool keep : {false, true})
        for (uint64_t k = 1; k <= 12; ++k) {
          SCOPED_TRACE(fmt::format("kind {} policy {} read {}", static_cast<int>(kind),
                                   static_cast<int>(policy), k));
          const dataset::Order by = order(dataset::OrderKind::kWindowed, 2);
          const auto faulty = storage::make_faulty_store(*store, {.kind = kind, .fail_at = k});
          EngineOptions options;
          options.batch_size = 8;
          options.on_error = policy;
          options.keep_samples = keep;
          const auto engine = open(by, options, *faulty);
          engine->begin_epoch(0, 0, UINT64_MAX);
          uint64_t samples = 0;
          Status ended;
          for (;;) {
            auto batch = engine->next({});
            if (!batch.ok()) ended = batch.error();
            if (!batch.ok() || !*batch) break;
            samples += (*batch)->samples().size();
            for (const LoadedSample& sample : (*batch)->samples())
              if (keep) check(sample);
          }
          const EngineStats stats = engine->stats();
          ASSERT_GE(stats.bad_count, 1u);
          ASSERT_LE(stats.bad_count, 6u);
          EXPECT_EQ(ended.ok(), policy != OnError::kRaise);
          if (policy == OnError::kSkip) {
            EXPECT_EQ(samples, 24 - stats.bad_count);
          }
          for (const BadRecord& bad : stats.bad_records)
            EXPECT_THAT(bad.cause, HasSubstr(".block"));
        }
}

TEST_F(Blocks, BeginningAtAPositionGivesTheBatchesThatWouldHaveFollowed) {
  make(kUneven, 3);
  const dataset::Order by = order(dataset::OrderKind::kWindowed, 2);
  EngineOptions options;
  options.batch_size = 24;
  options.keep_samples = true;
  const auto engine = open(by, options);
  const std::vector<uint64_t> whole = drain(*engine, true, 4);
  const std::vector<uint64_t> rest = drain(*engine, true, 4, 480);
  EXPECT_EQ(rest, std::vector<uint64_t>(whole.begin() + 480, whole.end()));
}

TEST_F(Blocks, AsReadyDeliversEverySampleOnce) {
  make(kUneven, 4);
  const dataset::Order by = order(dataset::OrderKind::kWindowed, 2);
  EngineOptions options;
  options.batch_size = 10;
  options.prefetch_batches = 8;
  options.decode_threads = 3;
  options.as_ready = true;
  const auto engine = open(by, options);
  std::vector<uint64_t> seen = drain(*engine);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, all());
}

TEST_F(Blocks, ManyAcceleratorsShareAnEpochWithoutOverlap) {
  make(kUneven, 4);
  const dataset::Order by = order(dataset::OrderKind::kWindowed, 2);
  constexpr uint64_t kWorld = 6;
  std::vector<std::vector<uint64_t>> seen(kWorld);
  {
    std::vector<std::jthread> threads;
    for (uint64_t rank = 0; rank < kWorld; ++rank)
      threads.emplace_back([&, rank] {
        EngineOptions options;
        options.batch_size = 16;
        options.rank = rank;
        options.world_size = kWorld;
        options.tail = Tail::kAll;
        options.keep_samples = rank % 2 == 0;
        const auto engine = open(by, options);
        seen[rank] = drain(*engine, options.keep_samples);
      });
  }
  std::vector<uint64_t> together;
  for (const auto& some : seen) together.insert(together.end(), some.begin(), some.end());
  std::sort(together.begin(), together.end());
  EXPECT_EQ(together, all());
}

TEST_F(Blocks, StopInMidReadAndAbandonedEpochsLeaveNothingBehind) {
  make({{50, 50}, 5}, 4);
  storage::SlowOptions slow;
  slow.latency_ns = 2'000'000;
  const auto slow_store = storage::make_slow_store(std::move(store), slow);
  const dataset::Order by = order(dataset::OrderKind::kWindowed);
  EngineOptions options;
  options.batch_size = 30;
  options.tail = Tail::kAll;
  decode_ms = 1;
  {
    const auto engine = open(by, options, *slow_store);
    for (int i = 0; i < 4; ++i) {
      engine->begin_epoch(0, 0, UINT64_MAX);
      ASSERT_TRUE(engine->next({}).ok());
    }
    std::stop_source stop;
    std::jthread stopper([&] { stop.request_stop(); });
    engine->begin_epoch(1, 0, UINT64_MAX);
    for (;;) {
      const auto batch = engine->next(stop.get_token());
      if (!batch.ok()) {
        EXPECT_EQ(batch.error().code, ErrorCode::kCancelled);
      }
      if (!batch.ok() || !*batch) break;
    }
    EXPECT_EQ(drain(*engine, false, 2).size(), 400u);
    engine->begin_epoch(3, 0, UINT64_MAX);  // and goes in mid-read
  }
}

TEST_F(Blocks, SamplesOutliveTheirBatchAndTheCache) {
  make({{64, 64, 64, 64}, 1}, 4);
  const dataset::Order by = order(dataset::OrderKind::kSequential);
  EngineOptions options;
  options.batch_size = 64;
  options.keep_samples = true;
  options.window_bytes = 600;  // one block
  const auto engine = open(by, options);
  engine->begin_epoch(0, 0, UINT64_MAX);
  std::vector<LoadedSample> held;
  while (auto batch = std::move(engine->next({})).value()) held.push_back(batch->samples()[7]);
  ASSERT_EQ(held.size(), 16u);
  for (const LoadedSample& sample : held) check(sample);
}

TEST_F(Blocks, MemoryStaysWithinItsBoundsWhateverTheOrder) {
  make({std::vector<uint64_t>(64, 512), 1}, 4);  // 256 blocks of 4 KiB
  const dataset::Order by = order(dataset::OrderKind::kFull);
  for (const bool keep : {false, true}) {
    decodes = 0;
    EngineOptions options;
    options.batch_size = 64;
    options.prefetch_batches = 1;
    options.keep_samples = keep;
    options.decode_threads = 2;
    options.window_bytes = 64 << 10;
    options.shard_cache_bytes = 128 << 10;
    const auto engine = open(by, options);
    engine->begin_epoch(0, 0, 40);
    while (std::move(engine->next({})).value()) {
    }
    EXPECT_GT(decodes, 300);  // a full shuffle reads blocks again
    // Bytes read ahead, decoded blocks that are kept, one per thread in work, and with keep_samples
    // those that up to three batches hold on to.
    const uint64_t held = keep ? 3 * 64 * 4096 : 0;
    EXPECT_LE(engine->stats().buffer_bytes_max, (64u + 128 + 4 * 4) * 1024 + held);
  }
}

TEST_F(Blocks, LargerThanMemoryAllowsAreBadRecords) {
  make({{10, 200}, 1}, 1);
  const dataset::Order by = order(dataset::OrderKind::kSequential);
  EngineOptions options;
  options.batch_size = 70;
  options.on_error = OnError::kSkip;
  options.record_bytes_max = 1000;
  const auto engine = open(by, options);
  EXPECT_EQ(drain(*engine).size(), 10u);
  EXPECT_EQ(engine->stats().bad_count, 200u);
  EXPECT_THAT(engine->stats().bad_records.at(0).cause, HasSubstr("more than memory allows"));
}

TEST_F(Blocks, PreprocessTimeIsSpentOnEachSample) {
  make({{20}, 1}, 1);
  const dataset::Order by = order(dataset::OrderKind::kSequential);
  std::atomic<int> asked{0};
  EngineOptions options;
  options.batch_size = 5;
  options.preprocess_ns = [&](uint64_t, uint64_t) {
    ++asked;
    return 1000;
  };
  for (const Payload payload : {Payload::kBytes, Payload::kDecode}) {
    options.payload = payload;
    asked = 0;
    EXPECT_EQ(drain(*open(by, options)), all());
    EXPECT_EQ(asked, 20);
  }
}

// --- samples kept in memory ---

TEST_F(Blocks, KeptInMemoryAreReadOnceByAllEnginesTogether) {
  make(kUneven, 3);
  const dataset::Order by = order(dataset::OrderKind::kFull);
  EngineOptions options;
  options.batch_size = 20;
  options.tail = Tail::kAll;
  options.keep_samples = true;
  options.sample_cache = std::move(SampleCache::open(*index, 1 << 20)).value();
  const auto first = open(by, options);
  EXPECT_EQ(drain(*first, true).size(), 2400u);
  const uint64_t bytes = first->stats().file_bytes;
  EXPECT_EQ(bytes, 2400u * 8);
  EXPECT_EQ(drain(*first, true, 1).size(), 2400u);
  EXPECT_EQ(first->stats().file_bytes, bytes) << "the second epoch reads nothing";
  const auto second = open(by, options);
  EXPECT_EQ(drain(*second, true).size(), 2400u);
  EXPECT_EQ(second->stats().reads, 0u);
  EXPECT_GT(second->stats().memory_samples, 0u);
}

TEST(SampleCache, RefusesADataSetLargerThanWhatIsThere) {
  shape_now = {{100}, 1};
  const auto store = std::move(storage::open_store("memory", "test")).value();
  const std::vector<std::byte> bytes(1000);
  ASSERT_TRUE(storage::write_file(*store, "a.block", bytes).ok());
  dataset::IndexOptions options;
  options.format = &number_format();
  const auto index = std::move(dataset::Index::open(*store, options)).value();
  const auto refused = SampleCache::open(*index, SampleCache::bytes_needed(*index) - 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("are available"));
  EXPECT_TRUE(SampleCache::open(*index, SampleCache::bytes_needed(*index)).ok());
}

}  // namespace
}  // namespace forebay::loader
