// Names and sizes against DLIO's, then generation with faults, stops and restarts: whatever
// happens, a name stands for a whole file and a second run completes the first.
#include "dataset/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "dataset/store_for_test.h"

namespace forebay::dataset {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

GeneratorOptions small(std::string_view format, uint64_t train, uint64_t valid = 0) {
  GeneratorOptions options;
  options.format = formats::find_format(format);
  options.files_train = train;
  options.files_valid = valid;
  options.record_bytes = 900;
  options.threads = 3;
  return options;
}

std::vector<std::string> paths(const GeneratorPlan& plan) {
  std::vector<std::string> result;
  for (const auto& file : plan.files) result.push_back(file.path);
  return result;
}

Result<GeneratorProgress> generate_quietly(storage::Store& store, const GeneratorOptions& options) {
  return generate(store, options, nullptr, std::stop_token());
}

TEST(GeneratorPlan, GivesRawRecordsExactlyTheirLength) {
  GeneratorOptions options = small("raw", 2);
  options.samples_per_file = 3;
  options.record_bytes = 4000;
  EXPECT_EQ(plan_generation(options).take().bytes, 2u * 3 * 4000);
  options.common.type = formats::ElementType::kF64;
  EXPECT_EQ(plan_generation(options).take().bytes, 2u * 3 * 4000);
  options.record_bytes = 4001;
  EXPECT_EQ(plan_generation(options).take().bytes, 2u * 3 * 4001);
}

TEST(GeneratorPlan, NamesFilesAsDlio) {
  EXPECT_THAT(paths(plan_generation(small("npz", 3, 1)).take()),
              ElementsAre("train/img_0_of_3.npz", "train/img_1_of_3.npz", "train/img_2_of_3.npz",
                          "valid/img_0_of_1.npz"));
  GeneratorOptions options = small("tfrecord", 11, 3);
  options.file_prefix = "part";
  options.subfolders_train = 10;
  options.subfolders_valid = 2;
  const std::vector<std::string> names = paths(plan_generation(options).take());
  EXPECT_EQ(names[0], "train/00/part_00_of_11.tfrecord");
  EXPECT_EQ(names[9], "train/09/part_09_of_11.tfrecord");
  EXPECT_EQ(names[10], "train/00/part_10_of_11.tfrecord");
  EXPECT_EQ(names[13], "valid/0/part_2_of_3.tfrecord");
}

TEST(GeneratorPlan, FixedSizesAreSquares) {
  GeneratorOptions options = small("npz", 2);
  options.record_bytes = 146600628;
  for (const auto& file : plan_generation(options).take().files) {
    EXPECT_EQ(file.rows, 12107u);
    EXPECT_EQ(file.columns, 12107u);
  }
}

// Values of numpy.random.RandomState(10).normal(12107, 2822.2049..., 28): the unet3d workload.
TEST(GeneratorPlan, DrawsTheSizesThatDlioDraws) {
  GeneratorOptions options = small("npz", 10, 4);
  options.record_bytes = 146600628;
  options.record_bytes_stdev = 68341808;
  const GeneratorPlan plan = plan_generation(options).take();
  EXPECT_EQ(plan.files[0].rows, 15865u);
  EXPECT_EQ(plan.files[0].columns, 14125u);
  EXPECT_EQ(plan.files[1].rows, 7745u);
  EXPECT_EQ(plan.files[1].columns, 12083u);
  uint64_t sum = 0;  // train and valid draw from one stream
  for (const auto& file : plan.files) sum += file.rows * file.columns;
  EXPECT_EQ(sum, 2279228888u);
}

// Two sides of half the relative deviation each make 1/sqrt(2) of the deviation asked for: a known
// property of DLIO's rule, kept for equal sizes.
TEST(GeneratorPlan, StandardDeviationIsThatOfDlio) {
  GeneratorOptions options = small("npz", 2000);
  options.record_bytes = 146600628;
  options.record_bytes_stdev = 68341808;
  double sum = 0, squares = 0;
  uint64_t least = UINT64_MAX;
  for (const auto& file : plan_generation(options).take().files) {
    const auto bytes = static_cast<double>(file.rows * file.columns);
    sum += bytes;
    squares += bytes * bytes;
    least = std::min(least, file.rows * file.columns);
  }
  EXPECT_EQ(sum, 289456078193.0);
  EXPECT_NEAR(sum / 2000, 146600628, 0.015 * 146600628);
  EXPECT_NEAR(std::sqrt(squares / 2000 - sum / 2000 * sum / 2000), 48.98e6, 0.03 * 48.98e6);
  EXPECT_GT(least, 0u);
}

TEST(GeneratorPlan, SidesAreAtLeastOne) {
  GeneratorOptions options = small("npz", 500);
  options.record_bytes = 100;
  options.record_bytes_stdev = 1000;
  bool was_cut = false;
  for (const auto& file : plan_generation(options).take().files) {
    ASSERT_GE(std::min(file.rows, file.columns), 1u);
    was_cut = was_cut || file.rows == 1;
  }
  EXPECT_TRUE(was_cut);
}

TEST(GeneratorPlan, RecordDimensionsReplaceTheSquare) {
  GeneratorOptions options = small("npy", 1);
  options.record_dims = {3, 5, 7};
  options.common.type = formats::ElementType::kF32;
  const GeneratorPlan plan = plan_generation(options).take();
  EXPECT_THAT(plan.files[0].shape, ElementsAre(3, 5, 7));
  EXPECT_GE(plan.bytes, 3u * 5 * 7 * 4);
}

TEST(GeneratorPlan, SeedsDifferByFileAndRepeatByRun) {
  const GeneratorPlan a = plan_generation(small("npz", 50, 50)).take();
  const GeneratorPlan b = plan_generation(small("npz", 50, 50)).take();
  std::set<uint64_t> seeds;
  for (size_t i = 0; i < a.files.size(); ++i) {
    seeds.insert(a.files[i].seed);
    EXPECT_EQ(a.files[i].seed, b.files[i].seed);
  }
  EXPECT_EQ(seeds.size(), 100u);
}

TEST(GeneratorPlan, RefusesImpossibleSizes) {
  const auto refuses = [](auto change) {
    GeneratorOptions options = small("npz", 2, 1);
    change(options);
    const auto plan = plan_generation(options);
    return !plan.ok() && plan.error().code == ErrorCode::kInvalidArgument;
  };
  using O = GeneratorOptions;
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const double bytes : {0.0, -1.0, 0.5, nan, infinity, 1e19}) {
    EXPECT_TRUE(refuses([&](O& o) { o.record_bytes = bytes; })) << bytes;
    if (bytes != 0 && bytes != 0.5) {
      EXPECT_TRUE(refuses([&](O& o) { o.record_bytes_stdev = bytes; })) << bytes;
    }
  }
  EXPECT_TRUE(refuses([](O& o) { o.samples_per_file = 0; }));
  EXPECT_TRUE(refuses([](O& o) { o.samples_per_file = uint64_t{1} << 61; }));
  EXPECT_TRUE(refuses([](O& o) { o.files_train = UINT64_MAX; }));
  EXPECT_TRUE(refuses([](O& o) { o.files_train = o.files_valid = UINT64_MAX / 2 + 1; }));
  EXPECT_TRUE(refuses([](O& o) { o.files_train = o.files_valid = 0; }));
  EXPECT_TRUE(refuses([](O& o) { o.record_dims = {3, 0}; }));
  EXPECT_TRUE(refuses([](O& o) { o.record_dims = {1u << 31, 1u << 31, 2}; }));
  EXPECT_TRUE(refuses([](O& o) { o.record_dims = {3}, o.record_bytes_stdev = 1; }));
  EXPECT_TRUE(refuses([](O& o) { o.record_bytes = 4e18; }));  // three files of it are too many
  EXPECT_TRUE(refuses([](O& o) { o.file_prefix = "a/b"; }));
  EXPECT_TRUE(refuses([](O& o) { o.format = nullptr; }));
}

TEST(Generator, WritesEveryFileOfThePlan) {
  StoreForTest store;
  const GeneratorOptions options = small("npz", 20, 5);
  const GeneratorProgress progress = generate_quietly(store, options).take();
  const GeneratorPlan plan = plan_generation(options).take();
  ASSERT_EQ(store.files.size(), 25u);
  for (const auto& spec : plan.files)
    EXPECT_EQ(store.files.at(spec.path).bytes.size(), options.format->estimate_bytes(spec));
  EXPECT_EQ(progress.files_done, 25u);
  EXPECT_EQ(progress.files_kept, 0u);
  EXPECT_EQ(progress.bytes_written, plan.bytes);
  EXPECT_EQ(progress.bytes_total, plan.bytes);
}

// DLIO lists train/ and valid/ and fails when one is missing, also when it asks for no file there.
TEST(Generator, MakesBothFoldersBeforeTheFirstFile) {
  StoreForTest store;
  store.fault = [&](std::string_view operation, const std::string& /*path*/) -> Status {
    if (operation == "create" && store.folders.size() < 2)
      return fail(ErrorCode::kIo, "a file came before its folder");
    return {};
  };
  const auto made = generate_quietly(store, small("npz", 3, 0));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_THAT(store.folders, ElementsAre("train", "valid"));
}

TEST(Generator, AFormatThatCannotBeMadeHereLeavesNoFolder) {
  static constexpr auto kRefuse = []() -> Status {
    return fail(ErrorCode::kUnsupported, "no module here");
  };
  formats::Format format = *formats::find_format("npz");
  format.check_write = kRefuse;
  GeneratorOptions options = small("npz", 3);
  options.format = &format;
  StoreForTest store;
  EXPECT_EQ(generate_quietly(store, options).error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(store.folders.empty());
  EXPECT_EQ(store.creates, 0);
}

TEST(Generator, ContentsDoNotDependOnThreads) {
  StoreForTest one, many;
  GeneratorOptions options = small("npz", 10);
  options.threads = 1;
  ASSERT_TRUE(generate_quietly(one, options).ok());
  options.threads = 8;
  ASSERT_TRUE(generate_quietly(many, options).ok());
  for (const auto& entry : one.files)
    EXPECT_EQ(entry.second.bytes, many.files.at(entry.first).bytes) << entry.first;
}

TEST(Generator, KeepsWholeFilesAndWritesTheRest) {
  StoreForTest store;
  const GeneratorOptions options = small("npz", 10);
  ASSERT_TRUE(generate_quietly(store, options).ok());
  store.files.erase("train/img_03_of_10.npz");
  store.files.at("train/img_07_of_10.npz").bytes.resize(100);
  store.creates = 0;
  const GeneratorProgress progress = generate_quietly(store, options).take();
  EXPECT_EQ(store.creates, 2);
  EXPECT_EQ(progress.files_kept, 8u);
  EXPECT_EQ(progress.files_done, 10u);
  EXPECT_GT(store.files.at("train/img_07_of_10.npz").bytes.size(), 900u);
}

// Sizes of compressed files are not known before; the estimate is a bound.
TEST(Generator, KeepsFilesBelowTheBoundWhereSizesVary) {
  StoreForTest store;
  const GeneratorOptions options = small("jpeg", 6);
  ASSERT_TRUE(generate_quietly(store, options).ok());
  store.creates = 0;
  EXPECT_EQ(generate_quietly(store, options).take().files_kept, 6u);
  EXPECT_EQ(store.creates, 0);
  store.files.at("train/img_0_of_6.jpeg").bytes.clear();
  EXPECT_EQ(generate_quietly(store, options).take().files_kept, 5u);
}

TEST(Generator, ChecksSpaceForWhatIsMissingBeforeTheFirstByte) {
  StoreForTest store;
  GeneratorOptions options = small("npz", 4);
  options.record_bytes = 10e6;
  store.free = 30'000'000;
  const auto result = generate_quietly(store, options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(result.error().message, HasSubstr("30.0 MB"));
  EXPECT_THAT(result.error().message, HasSubstr("test:/data"));
  EXPECT_EQ(store.creates, 0);
  store.free = UINT64_MAX;
  ASSERT_TRUE(generate_quietly(store, options).ok());
  store.free = 0;  // nothing is missing
  EXPECT_TRUE(generate_quietly(store, options).ok());
}

// jpeg's bound is more than three times what noise takes: one file tells.
TEST(Generator, SpaceIsMeasuredWhereTheFormatOnlyBoundsIt) {
  StoreForTest store;
  GeneratorOptions options = small("jpeg", 20);
  options.record_bytes = 1e6;
  const uint64_t bound = plan_generation(options).take().bytes;
  store.free = bound / 10 * 5;
  ASSERT_TRUE(generate_quietly(store, options).ok());
  uint64_t written = 0;
  for (const auto& entry : store.files) written += entry.second.bytes.size();
  EXPECT_LT(written, store.free);
  EXPECT_GT(written, bound / 10 * 2);

  StoreForTest full;
  full.free = written / 10 * 9;
  const auto refused = generate_quietly(full, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("by the measure of one"));
  EXPECT_EQ(full.creates, 0);
}

TEST(Generator, CountsDataThatIsNotOfThisSet) {
  StoreForTest store;
  ASSERT_TRUE(generate_quietly(store, small("tfrecord", 28)).ok());
  store.put("train/README.txt");
  store.put("other/img_1_of_3.tfrecord");
  const GeneratorProgress more = generate_quietly(store, small("tfrecord", 40)).take();
  EXPECT_EQ(more.files_strange, 28u);
  EXPECT_EQ(more.strange_example, "train/img_00_of_28.tfrecord");
  EXPECT_EQ(more.files_kept, 0u);
  StoreForTest fresh;
  ASSERT_TRUE(generate_quietly(fresh, small("tfrecord", 28)).ok());
  EXPECT_EQ(generate_quietly(fresh, small("tfrecord", 28)).take().files_strange, 0u);
}

TEST(Generator, SyncsEachFileBeforeItGetsItsName) {
  for (const bool sync : {true, false}) {
    StoreForTest store;
    GeneratorOptions options = small("tfrecord", 40);
    options.sync = sync;
    ASSERT_TRUE(generate_quietly(store, options).ok());
    ASSERT_EQ(store.files.size(), 80u);  // and their side files
    for (const auto& entry : store.files) EXPECT_EQ(entry.second.was_synced, sync) << entry.first;
  }
}

TEST(Generator, DoesNotSyncWhereTheStoreCannot) {
  StoreForTest store;
  store.caps.can_sync = false;
  ASSERT_TRUE(generate_quietly(store, small("npz", 4)).ok());
  EXPECT_EQ(store.syncs, 0);
  EXPECT_EQ(store.files.size(), 4u);
}

TEST(Generator, WritesSideFilesAndReplacesMissingAndStaleOnes) {
  StoreForTest store;
  GeneratorOptions options = small("tfrecord", 3, 1);
  options.samples_per_file = 4;
  ASSERT_TRUE(generate_quietly(store, options).ok());
  const std::string side = options.format->side_paths("train/img_1_of_3.tfrecord").at(0);
  const StoreForTest::File whole = store.files.at(side);
  EXPECT_EQ(store.files.size(), 8u);

  store.files.erase(side);
  store.creates = 0;
  ASSERT_TRUE(generate_quietly(store, options).ok());
  EXPECT_EQ(store.creates, 1);
  EXPECT_EQ(store.files.at(side).bytes, whole.bytes);

  // A crash between data and side file must not leave a side file of older data behind.
  store.files.erase("train/img_1_of_3.tfrecord");
  store.fault = [&](std::string_view operation, const std::string& path) -> Status {
    if (operation == "create" && path == side) return fail(ErrorCode::kIo, "power loss");
    return {};
  };
  EXPECT_FALSE(generate_quietly(store, options).ok());
  EXPECT_EQ(store.files.count(side), 0u);
  store.fault = nullptr;
  ASSERT_TRUE(generate_quietly(store, options).ok());
  EXPECT_EQ(store.files.at(side).bytes, whole.bytes);
}

// Fails operation k for every k: the error names a file, nothing half-written has a name, and the
// next run ends where an undisturbed one does.
TEST(Generator, RecoversFromAFailureOfAnyOperation) {
  StoreForTest undisturbed;
  const GeneratorOptions options = small("tfrecord", 3, 2);
  ASSERT_TRUE(generate_quietly(undisturbed, options).ok());
  bool was_reached = true;
  for (int k = 0; was_reached; ++k) {
    StoreForTest store;
    std::atomic<int> operations = 0;
    store.fault = [&](std::string_view, const std::string&) -> Status {
      if (operations++ == k) return fail(ErrorCode::kResourceExhausted, "no space left");
      return {};
    };
    const auto result = generate_quietly(store, options);
    was_reached = operations > k;
    ASSERT_EQ(result.ok(), !was_reached) << "operation " << k;
    if (was_reached) {
      EXPECT_EQ(result.error().code, ErrorCode::kResourceExhausted);
      EXPECT_THAT(result.error().message,
                  AnyOf(HasSubstr("_of_"), StartsWith("train: "), StartsWith("valid: ")));
      EXPECT_THAT(result.error().message, HasSubstr("no space left"));
    }
    EXPECT_EQ(store.writers_open, 0);
    for (const auto& entry : store.files)
      EXPECT_EQ(entry.second.bytes, undisturbed.files.at(entry.first).bytes) << entry.first;
    store.fault = nullptr;
    ASSERT_TRUE(generate_quietly(store, options).ok());
    EXPECT_EQ(store.files.size(), undisturbed.files.size());
  }
}

TEST(Generator, StopsInTheMiddleOfAFileAndContinuesLater) {
  StoreForTest store;
  const GeneratorOptions options = small("npz", 30);
  std::stop_source stop;
  std::atomic<int> appends = 0;
  store.fault = [&](std::string_view operation, const std::string&) -> Status {
    if (operation == "append" && ++appends == 20) stop.request_stop();
    return {};
  };
  const auto result = generate(store, options, nullptr, stop.get_token());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(result.error().message, HasSubstr("of 30 files"));
  EXPECT_EQ(store.writers_open, 0);
  const size_t before = store.files.size();
  EXPECT_LT(before, 30u);
  store.fault = nullptr;
  EXPECT_EQ(generate_quietly(store, options).take().files_kept, before);
  EXPECT_EQ(store.files.size(), 30u);
}

TEST(Generator, StopRequestedBeforeTheStartWritesNothing) {
  StoreForTest store;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(generate(store, small("npz", 3), nullptr, stop.get_token()).error().code,
            ErrorCode::kCancelled);
  EXPECT_TRUE(store.files.empty());
}

TEST(Generator, ReportsProgressFromTheCallingThreadUpToTheTotals) {
  StoreForTest store;
  std::vector<GeneratorProgress> seen;
  const auto caller = std::this_thread::get_id();
  const auto result = generate(
      store, small("jpeg", 12),
      [&](const GeneratorProgress& progress) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        seen.push_back(progress);
      },
      std::stop_token());
  ASSERT_TRUE(result.ok());
  ASSERT_FALSE(seen.empty());
  for (size_t i = 1; i < seen.size(); ++i) EXPECT_GE(seen[i].files_done, seen[i - 1].files_done);
  EXPECT_EQ(seen.back().files_done, 12u);
  EXPECT_EQ(seen.back().files_total, 12u);
  EXPECT_EQ(seen.back().bytes_written, seen.back().bytes_total);  // bounds became sizes
  EXPECT_GT(seen.back().seconds, 0);
}

TEST(Generator, RefusesThreadCountsOutOfRange) {
  StoreForTest store;
  GeneratorOptions options = small("npz", 1);
  for (const int threads : {-1, 100000}) {
    options.threads = threads;
    EXPECT_EQ(generate_quietly(store, options).error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace forebay::dataset
