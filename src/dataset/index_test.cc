// What a folder holds: against naive counts, for folders nobody generated, and with a cache that
// may be missing, old, damaged or hostile.
#include "dataset/index.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "base/clock.h"
#include "base/crc.h"
#include "base/random.h"
#include "base/sanitizer.h"
#include "base/test_folder.h"
#include "dataset/generator.h"
#include "dataset/index_cache.h"
#include "dataset/layout_check.h"
#include "dataset/store_for_test.h"

namespace forebay::dataset {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// A folder of its own, removed afterwards.
class ScratchFolder {
 public:
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  void write(const std::string& name, const std::string& content = "x") const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << content;
  }
  std::string string() const { return path_.string(); }

 private:
  const base::TestFolder folder_{"index"};
  const std::filesystem::path path_ = folder_.path();
};

std::vector<std::string> paths(const Index& index) {
  std::vector<std::string> result;
  for (uint32_t i = 0; i < index.file_count(); ++i) result.emplace_back(index.path(i));
  return result;
}

auto problem(const std::string& path, const std::string& reason) {
  return ::testing::AllOf(Field(&storage::Skipped::path, path),
                          Field(&storage::Skipped::reason, HasSubstr(reason)));
}

IndexOptions of_format(std::string_view name, uint64_t samples_per_file = 1) {
  IndexOptions options;
  options.format = formats::find_format(name);
  options.samples_per_file = samples_per_file;
  return options;
}

void put_generated(StoreForTest& store, std::string_view format, uint64_t files,
                   uint64_t samples_per_file) {
  GeneratorOptions options;
  options.format = formats::find_format(format);
  options.files_train = files;
  options.samples_per_file = samples_per_file;
  options.record_bytes = 400;
  ASSERT_TRUE(generate(store, options, nullptr, std::stop_token()).ok());
}

TEST(Index, FindsClassFoldersUpperCaseNamesAndNamesStrays) {
  ScratchFolder data;
  data.write("a/1.jpg");
  data.write("a/2.jpg");
  std::filesystem::create_directories(data / "b");
  data.write("c/3.JPEG");
  data.write("c/.DS_Store");
  const auto store = storage::open_store("local", data.string()).take();
  const auto index = Index::open(*store, of_format("jpeg")).take();
  EXPECT_THAT(paths(*index), ElementsAre("a/1.jpg", "a/2.jpg", "c/3.JPEG"));
  EXPECT_EQ(index->sample_count(), 3u);
  EXPECT_EQ(index->summary().stray_count, 1u);
  EXPECT_EQ(index->summary().problem_count, 1u);
  EXPECT_THAT(index->summary().problems, ElementsAre(problem("c/.DS_Store", "not jpeg")));
}

TEST(Index, FollowsLinksOnceAndNamesLoopsAndDanglingLinks) {
  ScratchFolder data;
  data.write("data/a/1.png");
  data.write("elsewhere/2.png");
  std::filesystem::create_directory_symlink("..", data / "data/a/loop");
  std::filesystem::create_directory_symlink("../elsewhere", data / "data/b");
  std::filesystem::create_symlink("nowhere.png", data / "data/gone.png");
  const auto store = storage::open_store("local", (data / "data").string()).take();
  const auto index = Index::open(*store, of_format("png")).take();
  EXPECT_THAT(paths(*index), UnorderedElementsAre("a/1.png", "b/2.png"));
  EXPECT_EQ(index->summary().problem_count, 2u);
  EXPECT_THAT(index->summary().problems,
              UnorderedElementsAre(problem("a/loop", "loop"), problem("gone.png", "dangling")));
}

TEST(Index, NamesWhatTheStorePassedOver) {
  StoreForTest store;
  store.put("train/a.npy");
  store.skipped = {{"train/secret", "permission denied"}};
  const auto index = Index::open(store, of_format("npy")).take();
  EXPECT_THAT(index->summary().problems, ElementsAre(problem("train/secret", "permission denied")));
}

TEST(Index, UnreadableFolderIsNamedAndTheRestIsUsed) {
  ScratchFolder data;
  data.write("a/1.png");
  data.write("b/2.png");
  std::filesystem::permissions(data / "b", std::filesystem::perms::none);
  if (std::ifstream(data / "b/2.png")) GTEST_SKIP() << "this user may read every folder";
  const auto store = storage::open_store("local", data.string()).take();
  const auto index = Index::open(*store, of_format("png")).take();
  std::filesystem::permissions(data / "b", std::filesystem::perms::owner_all);
  EXPECT_THAT(paths(*index), ElementsAre("a/1.png"));
  EXPECT_THAT(index->summary().problems, ElementsAre(problem("b", "ermission denied")));
}

TEST(Index, LeavesOutEmptyFilesByName) {
  StoreForTest store;
  store.put("1.png");
  store.put("2.png", "");
  const auto index = Index::open(store, of_format("png")).take();
  EXPECT_EQ(index->file_count(), 1u);
  EXPECT_THAT(index->summary().problems, ElementsAre(problem("2.png", "empty")));
}

TEST(Index, KeepsTheFirstHundredProblemsAndCountsAll) {
  StoreForTest store;
  store.put("1.png");
  for (int i = 0; i < 250; ++i) store.put(fmt::format("{:03}.txt", i));
  const auto index = Index::open(store, of_format("png")).take();
  EXPECT_EQ(index->summary().problem_count, 250u);
  EXPECT_EQ(index->summary().stray_count, 250u);
  EXPECT_EQ(index->summary().problems.size(), 100u);
}

TEST(Index, SaysWhatWasThereInsteadOfSamples) {
  StoreForTest store;
  for (const char* path : {"train/a.txt", "train/b.txt", "train/README"}) store.put(path);
  IndexOptions options = of_format("npz");
  options.folder = "train";
  const auto none = Index::open(store, options);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(none.error().message,
            "no samples under test:/data/train (looked for *.npz): 3 files of other kinds, "
            "e.g. train/README");
  store.files.clear();
  options.folder = "";
  EXPECT_EQ(Index::open(store, options).error().message,
            "no samples under test:/data (looked for *.npz): the folder is empty");
  options.folder = "train";  // does not exist: the caller may look elsewhere
  EXPECT_EQ(Index::open(store, options).error().code, ErrorCode::kNotFound);
}

TEST(Index, UsesTheFirstFilesInDlioOrder) {
  StoreForTest store;
  for (int i = 0; i < 10; ++i) store.put(fmt::format("train/{}/img_{}_of_10.npy", i % 2, i));
  IndexOptions options = of_format("npy");
  options.folder = "train/";
  options.files_max = 3;
  const auto nested = Index::open(store, options).take();
  EXPECT_THAT(paths(*nested), ElementsAre("train/0/img_0_of_10.npy", "train/1/img_1_of_10.npy",
                                          "train/0/img_2_of_10.npy"));
  EXPECT_EQ(nested->summary().files_beyond_max, 7u);

  store.put("train/b.npy");  // no longer all one folder down: by path
  EXPECT_THAT(
      paths(*Index::open(store, options).take()),
      ElementsAre("train/0/img_0_of_10.npy", "train/0/img_2_of_10.npy", "train/0/img_4_of_10.npy"));
  options.files_max = 0;
  EXPECT_EQ(Index::open(store, options).error().code, ErrorCode::kInvalidArgument);
}

TEST(Index, WithoutAFormatTakesTheOneMostFilesHave) {
  StoreForTest store;
  for (int i = 0; i < 5; ++i) store.put(fmt::format("{}.txt", i));
  for (int i = 0; i < 3; ++i) store.put(fmt::format("{}.npy", i));
  store.put("a.png");
  IndexOptions options;
  options.samples_per_file = 1;
  const auto index = Index::open(store, options).take();
  EXPECT_EQ(index->format().name, "npy");
  EXPECT_EQ(index->summary().stray_count, 6u);
}

TEST(Index, WithoutAFormatBelievesContentMoreThanNames) {
  StoreForTest store;
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  for (int i = 0; i < 9; ++i) store.put(fmt::format("{:x}", 0xabc0 + i), png);
  store.put("x.npy", "\x93NUMPY");
  IndexOptions options;
  options.samples_per_file = 1;
  EXPECT_EQ(Index::open(store, options).take()->format().name, "png");
  store.files.clear();
  for (int i = 0; i < 9; ++i) store.put(fmt::format("{}.jpg", i), png);
  const auto renamed = Index::open(store, options).take();
  EXPECT_EQ(renamed->format().name, "png");
  EXPECT_EQ(renamed->file_count(), 9u);
}

TEST(Index, WithoutAFormatTakesImagesOfBothKindsTogether) {
  // Only the kind that was more common was read.
  StoreForTest store;
  for (int i = 0; i < 3; ++i) store.put(fmt::format("cat/{}.jpg", i), "\xff\xd8\xff\xe0");
  for (int i = 0; i < 2; ++i) store.put(fmt::format("dog/{}.PNG", i), "\x89PNG\r\n\x1a\n");
  for (int i = 0; i < 4; ++i) store.put(fmt::format("notes/{}.npy", i), "\x93NUMPY");
  for (const char* name : {"cat/a.gif", "cat/b.webp", "dog/c.bmp"}) store.put(name);
  const auto index = Index::open(store, {}).take();
  EXPECT_EQ(index->format().name, "jpeg");
  EXPECT_EQ(index->file_count(), 5u) << "more than the 4 arrays";
  EXPECT_EQ(index->summary().problem_count, 7u);
  std::vector<storage::Skipped> named = index->summary().problems;
  named.resize(4);
  EXPECT_THAT(named, ElementsAre(problem("cat/a.gif", "gif images are not decoded"),
                                 problem("cat/b.webp", "webp images are not decoded"),
                                 problem("dog/c.bmp", "bmp images are not decoded"),
                                 problem("notes/0.npy", "not jpeg or png")));
  const auto only_png = Index::open(store, of_format("png")).take();
  EXPECT_EQ(only_png->file_count(), 2u) << "a format that is asked for is the only one";
}

TEST(Index, WithoutAFormatSaysAllItLookedFor) {
  StoreForTest store;
  store.put("a.md");
  const auto none = Index::open(store, {});
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("*.npz"));
  EXPECT_THAT(none.error().message, HasSubstr("1 file of another kind, a.md"));
}

TEST(Index, OpensNoFileButOneWhenEachIsOneSample) {
  StoreForTest store;
  put_generated(store, "npz", 40, 1);
  store.reads = 0;
  IndexOptions options = of_format("npz");
  options.folder = "train";
  const auto index = Index::open(store, options).take();
  EXPECT_LE(store.reads, 8);
  EXPECT_EQ(index->sample_count(), 40u);
  EXPECT_EQ(index->samples_per_file_max(), 1u);
  EXPECT_FALSE(index->is_together());
  const SampleLocation place = index->locate(17);
  EXPECT_EQ(place.file, 17u);
  EXPECT_EQ(place.sample_in_file, 0u);
  EXPECT_EQ(place.access, formats::Access::kWholeFile);
  EXPECT_EQ(place.extent.offset, 0u);
  EXPECT_EQ(place.extent.length, index->file_bytes(17));
}

TEST(Index, LocatesRecordsOfUnevenFilesAsANaiveCountDoes) {
  StoreForTest store;
  base::Random random(5);
  std::vector<SampleLocation> expected;
  for (uint32_t file = 0; file < 200; ++file) {
    const uint64_t records = 1 + random.below(5);
    store.put(fmt::format("{:03}.raw", file), std::string(records * 10, 'x'));
    for (uint64_t i = 0; i < records; ++i)
      expected.push_back({file, i, formats::Access::kExtents, {i * 10, 10}});
  }
  IndexOptions options = of_format("raw", 0);
  options.record_bytes = 10;
  const auto index = Index::open(store, options).take();
  ASSERT_EQ(index->sample_count(), expected.size());
  EXPECT_EQ(index->samples_per_file_max(), 5u);
  for (uint64_t i = 0; i < expected.size(); ++i) {
    const SampleLocation place = index->locate(i);
    ASSERT_EQ(place.file, expected[i].file) << i;
    ASSERT_EQ(place.sample_in_file, expected[i].sample_in_file) << i;
    ASSERT_EQ(place.extent.offset, expected[i].extent.offset) << i;
    ASSERT_EQ(place.extent.length, 10u) << i;
  }
  EXPECT_EQ(store.reads, 0);
}

TEST(Index, NamesFilesWithAnotherCountThanExpected) {
  StoreForTest store;
  store.put("a.raw", std::string(40, 'x'));
  store.put("b.raw", std::string(30, 'x'));
  IndexOptions options = of_format("raw", 4);
  options.record_bytes = 10;
  const auto index = Index::open(store, options).take();
  EXPECT_EQ(index->sample_count(), 7u);
  EXPECT_THAT(index->summary().problems, ElementsAre(problem("b.raw", "3 samples, 4")));
  EXPECT_EQ(index->summary().other_count_files, 1u);
  EXPECT_EQ(index->summary().other_count_example, "b.raw holds 3");
}

TEST(Index, FindsRecordsOfTfrecordFiles) {
  StoreForTest store;
  put_generated(store, "tfrecord", 5, 7);
  IndexOptions options = of_format("tfrecord", 7);
  options.folder = "train";
  const auto index = Index::open(store, options).take();
  EXPECT_EQ(index->sample_count(), 35u);
  EXPECT_EQ(index->summary().problem_count, 0u);
  EXPECT_EQ(index->locate(34).sample_in_file, 6u);
  EXPECT_EQ(index->locate(34).access, formats::Access::kExtents);
  EXPECT_EQ(index->locate(34).extent.offset + index->locate(34).extent.length,
            index->file_bytes(4));
  EXPECT_EQ(index->file_index(0).extents.size(), 7u);
}

TEST(Index, BadFileIsAnErrorOrLeftOutAsAsked) {
  StoreForTest store;
  for (const char* path : {"a.raw", "b.raw", "c.raw"}) store.put(path, std::string(20, 'x'));
  store.put("b.raw", "123");
  IndexOptions options = of_format("raw", 0);
  options.record_bytes = 10;
  const auto refused = Index::open(store, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("b.raw"));
  options.skip_bad_files = true;
  const auto index = Index::open(store, options).take();
  EXPECT_THAT(paths(*index), ElementsAre("a.raw", "c.raw"));
  EXPECT_EQ(index->sample_count(), 4u);
  EXPECT_EQ(index->locate(3).file, 1u);
  EXPECT_THAT(index->summary().problems, ElementsAre(problem("b.raw", "b.raw")));
  store.put("a.raw", "1");
  store.put("c.raw", "1");
  EXPECT_EQ(Index::open(store, options).error().code, ErrorCode::kCorruption);
}

TEST(Index, OfOneFileHoldsThatFileOnly) {
  StoreForTest store;
  for (const char* path : {"a.raw", "b.raw"}) store.put(path, std::string(20, 'x'));
  IndexOptions options = of_format("raw", 0);
  options.record_bytes = 10;
  options.only_file = "b.raw";
  const auto index = Index::open(store, options).take();
  EXPECT_THAT(paths(*index), ElementsAre("b.raw"));
  EXPECT_EQ(index->sample_count(), 2u);
  options.only_file = "c.raw";
  EXPECT_EQ(Index::open(store, options).error().code, ErrorCode::kNotFound);
}

TEST(Index, StopEndsDiscovery) {
  StoreForTest store;
  store.put("a.raw", "1234567890");
  IndexOptions options = of_format("raw", 0);
  std::stop_source stop;
  stop.request_stop();
  options.stop = stop.get_token();
  EXPECT_EQ(Index::open(store, options).error().code, ErrorCode::kCancelled);
}

TEST(Index, FingerprintChangesWithAnyFile) {
  StoreForTest store;
  for (const char* path : {"a.npy", "b.npy"}) store.put(path);
  const auto fingerprint = [&] {
    return Index::open(store, of_format("npy")).take()->fingerprint();
  };
  const uint64_t first = fingerprint();
  EXPECT_EQ(fingerprint(), first);
  store.put("b.npy", "x", 2);
  const uint64_t touched = fingerprint();
  store.put("b.npy", "xy", 1);
  const uint64_t resized = fingerprint();
  store.put("b.npy");
  store.put("c.npy");
  const uint64_t added = fingerprint();
  EXPECT_EQ((std::set{first, touched, resized, added}.size()), 4u);
}

TEST(Index, Opens200000FilesWithinTwoSeconds) {
  StoreForTest store;
  for (int i = 0; i < 200000; ++i)
    store.put(fmt::format("train/n{:04}/img_{:06}_of_200000.jpeg", i % 1000, i));
  IndexOptions options = of_format("jpeg");
  options.folder = "train";
  // CPU time: what other processes do must not decide.
  const std::clock_t start = std::clock();
  const auto index = Index::open(store, options).take();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, base::kIsSanitized ? 30 : 2);
  EXPECT_EQ(index->sample_count(), 200000u);
  EXPECT_EQ(index->path(199999), "train/n0999/img_199999_of_200000.jpeg");
}

// Names decide where they say something, content where they do not, and the caller where files are
// named one by one.
TEST(Index, FilesOfTheAskedForFormatNeedNoNameOfIts) {
  StoreForTest made;
  put_generated(made, "tfrecord", 2, 3);
  StoreForTest store;
  const auto records = made.files.at("train/img_0_of_2.tfrecord");
  for (const char* name : {"train-00000-of-00002", "train-00001-of-00002", "x.rec"})
    store.files["a/" + std::string(name)] = records;
  store.put("a/README", "what it is");
  store.put("a/list.csv", "1,2,3,4,5,6,7,8,9\n");
  IndexOptions options = of_format("tfrecord", 0);
  EXPECT_THAT(paths(*Index::open(store, options).take()),
              ElementsAre("a/train-00000-of-00002", "a/train-00001-of-00002", "a/x.rec"));
  options.patterns = {"a/train-00001-of-00002"};
  EXPECT_EQ(Index::open(store, options).take()->sample_count(), 3u);

  options = of_format("raw", 0);
  EXPECT_THAT(Index::open(store, options).error().message,
              HasSubstr("files of other names are raw where a pattern names them"));
  options.patterns = {"a/*.rec"};
  EXPECT_THAT(paths(*Index::open(store, options).take()), ElementsAre("a/x.rec"));
  options.patterns = {"a", "a/**"};
  EXPECT_FALSE(Index::open(store, options).ok()) << "all of a folder is not named one by one";
  options = of_format("tfrecord", 0);
  options.patterns = {"a/list.csv"};
  EXPECT_THAT(Index::open(store, options).error().message, HasSubstr("not a TFRecord file"));
}

TEST(Index, ACutArchiveIsAnErrorOfItsFileOrABadFile) {
  StoreForTest store;
  put_generated(store, "webdataset", 3, 4);
  StoreForTest::File& cut = store.files.at("train/img_1_of_3.tar");
  const size_t end = cut.bytes.size() - 1024;  // of the samples
  cut.bytes.resize(end);
  ScratchFolder folder;
  IndexOptions options = of_format("webdataset", 0);
  options.folder = "train";
  options.cache_path = (folder / "cache").string();
  for (int round = 0; round < 2; ++round) {  // asked, and remembered
    std::optional<BadFile> bad;
    const auto refused = Index::open(store, options, &bad);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
    EXPECT_EQ(refused.error().message,
              fmt::format("train/img_1_of_3.tar: truncated at byte {}: the zeros that end an "
                          "archive are missing",
                          end));
    ASSERT_TRUE(bad);
    EXPECT_EQ(bad->path, "train/img_1_of_3.tar");
    EXPECT_EQ(bad->offset, end);
  }
  options.skip_bad_files = true;
  const auto index = Index::open(store, options).take();
  EXPECT_TRUE(index->summary().from_cache);
  EXPECT_EQ(index->sample_count(), 12u);
  EXPECT_EQ(index->summary().bad_file_count, 1u);
  EXPECT_THAT(index->summary().damaged_files,
              ElementsAre(problem("train/img_1_of_3.tar", "truncated at byte")));
}

class IndexCacheFile : public ::testing::Test {
 protected:
  void SetUp() override {
    put_generated(store_, "tfrecord", 6, 3);
    options_ = of_format("tfrecord", 3);
    options_.folder = "train";
    options_.cache_path = (folder_ / "index.cache").string();
  }
  std::unique_ptr<Index> open() { return Index::open(store_, options_).take(); }

  ScratchFolder folder_;
  StoreForTest store_;
  IndexOptions options_;
};

TEST_F(IndexCacheFile, SparesOpeningFilesThatHaveNotChanged) {
  const auto first = open();
  EXPECT_FALSE(first->summary().from_cache);
  EXPECT_EQ(first->summary().problem_count, 0u);
  store_.reads = 0;
  const auto second = open();
  EXPECT_TRUE(second->summary().from_cache);
  EXPECT_EQ(store_.reads, 0);
  EXPECT_EQ(second->fingerprint(), first->fingerprint());
  for (uint64_t i = 0; i < 18; ++i)
    EXPECT_EQ(second->locate(i).extent.offset, first->locate(i).extent.offset);
}

TEST_F(IndexCacheFile, AsksTouchedFilesAgain) {
  open();
  store_.files.at("train/img_2_of_6.tfrecord").mtime_ns = 7;
  store_.reads = 0;
  EXPECT_FALSE(open()->summary().from_cache);
  EXPECT_GT(store_.reads, 0);
  EXPECT_TRUE(open()->summary().from_cache);
}

// The index files of these formats say where samples are: rewritten, cut or gone, they are noticed.
class IndexCacheOfSideFiles : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    put_generated(store_, GetParam(), 2, 3);
    options_ = of_format(GetParam(), 3);
    options_.folder = "train";
    options_.cache_path = (folder_ / "index.cache").string();
    ASSERT_FALSE(open().take()->summary().from_cache);
    ASSERT_TRUE(open().take()->summary().from_cache);
  }
  Result<std::unique_ptr<Index>> open() { return Index::open(store_, options_); }
  std::string side(const char* ending) const {
    return fmt::format("train/img_1_of_2.{}.{}", GetParam(), ending);
  }
  // Samples of other sizes, their sum the same.
  void rewrite_sides(int64_t mtime_ns) {
    const uint64_t whole = store_.files.at(side("").substr(0, side("").size() - 1)).bytes.size();
    const std::vector<uint64_t> offsets{0, 7, 17}, sizes{7, 10, whole - 17};
    const auto put = [&](const std::string& path, const std::vector<uint64_t>& values) {
      store_.put(path, {reinterpret_cast<const char*>(values.data()), values.size() * 8}, mtime_ns);
    };
    put(side("off.idx"), offsets);
    put(side("sz.idx"), sizes);
  }

  ScratchFolder folder_;
  StoreForTest store_;
  IndexOptions options_;
};

TEST_P(IndexCacheOfSideFiles, NoticesThatTheyWereRewritten) {
  const uint64_t before = open().take()->fingerprint();
  rewrite_sides(5000);
  const auto index = open().take();
  EXPECT_FALSE(index->summary().from_cache);
  EXPECT_EQ(index->locate(4).extent.offset, 7u);
  EXPECT_EQ(index->locate(4).extent.length, 10u);
  EXPECT_NE(index->fingerprint(), before);
  EXPECT_TRUE(open().take()->summary().from_cache);
}

TEST_P(IndexCacheOfSideFiles, NoticesThatOneIsGoneOrCut) {
  for (const char* ending : {"off.idx", "sz.idx"}) {
    const StoreForTest::File whole = store_.files.at(side(ending));
    store_.files.erase(side(ending));
    EXPECT_THAT(open().error().message, HasSubstr(side(ending))) << "gone";
    for (const size_t bytes : {0, 8, 23}) {
      StoreForTest::File cut = whole;  // also with the time of before
      cut.bytes.resize(bytes);
      store_.files[side(ending)] = cut;
      EXPECT_EQ(open().error().code, ErrorCode::kCorruption) << ending << " " << bytes;
    }
    store_.files[side(ending)] = whole;
  }
  EXPECT_TRUE(open().take()->summary().from_cache) << "nothing was remembered of the bad ones";
}

TEST_P(IndexCacheOfSideFiles, NoticesItForADataSetOfOneFile) {
  options_.folder = "";
  options_.only_file = side("").substr(0, side("").size() - 1);
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(open().take()->summary().from_cache);
  rewrite_sides(5000);
  EXPECT_EQ(open().take()->locate(1).extent.offset, 7u);
  store_.files.erase(side("sz.idx"));
  EXPECT_FALSE(open().ok());
}

TEST_P(IndexCacheOfSideFiles, IsNotBelievedWhereTheyHaveNoTime) {
  rewrite_sides(0);
  ASSERT_TRUE(open().ok());
  EXPECT_FALSE(open().take()->summary().from_cache);
}

INSTANTIATE_TEST_SUITE_P(Formats, IndexCacheOfSideFiles,
                         ::testing::Values("indexed_binary", "mmap_indexed_binary"),
                         [](const auto& given) { return std::string(given.param); });

// tfrecord's lie in a folder of their own, and need not be there.
TEST_F(IndexCacheFile, NoticesSideFilesOutsideTheDataSetsFolder) {
  const std::string side = "index/train/img_2_of_6.tfrecord.idx";
  ASSERT_EQ(store_.files.count(side), 1u);
  open();
  ASSERT_TRUE(open()->summary().from_cache);
  store_.files.at(side).mtime_ns += 1;
  EXPECT_FALSE(open()->summary().from_cache);
  EXPECT_TRUE(open()->summary().from_cache);
  store_.files.erase(side);
  EXPECT_FALSE(open()->summary().from_cache);
  EXPECT_TRUE(open()->summary().from_cache);
}

TEST_F(IndexCacheFile, IsNotBelievedWhereFilesHaveNoTime) {
  for (auto& entry : store_.files) entry.second.mtime_ns = 0;
  open();
  EXPECT_FALSE(open()->summary().from_cache);
}

TEST_F(IndexCacheFile, DamagedOrForeignOnesAreNamedAndReplaced) {
  open();
  std::ofstream(options_.cache_path) << "something else entirely";
  const auto index = open();
  EXPECT_EQ(index->sample_count(), 18u);
  EXPECT_EQ(index->summary().cache_problem,
            "index cache not used: " + options_.cache_path + ": not an index cache; made anew");
  EXPECT_EQ(index->summary().problem_count, 0u) << "nothing is wrong with the data";
  EXPECT_TRUE(open()->summary().from_cache);
  options_.files_max = 4;  // a part of the same files is known
  EXPECT_TRUE(open()->summary().from_cache);
}

// Several data sets, and one in several ways, under one name: none drives out another.
TEST_F(IndexCacheFile, IsSharedByDataSets) {
  StoreForTest other;
  put_generated(other, "tfrecord", 5, 2);
  other.name = "other";
  for (auto& entry : other.files) entry.second.mtime_ns += 77;
  IndexOptions of_other = options_, anew = options_;
  of_other.samples_per_file = 2;
  anew.samples_per_file = 0;
  const auto open_all = [&] {
    std::vector<bool> known;
    for (const auto& [store, options] :
         {std::pair(&store_, &options_), std::pair(&other, &of_other), std::pair(&other, &anew),
          std::pair(&store_, &anew)}) {
      const auto index = Index::open(*store, *options).take();
      EXPECT_EQ(index->summary().cache_problem, "");
      known.push_back(index->summary().from_cache);
    }
    return known;
  };
  EXPECT_THAT(open_all(), ElementsAre(false, false, false, false));
  EXPECT_THAT(open_all(), ElementsAre(true, true, true, true));
}

TEST_F(IndexCacheFile, OfFilesThatWereMovedIsGoodForThem) {
  open();
  store_.name = "elsewhere";
  EXPECT_TRUE(open()->summary().from_cache);
}

TEST_F(IndexCacheFile, HoldsTheLastSixteenAndLosesNoneToADamagedOne) {
  for (int i = 0; i < 17; ++i) {
    options_.columns = {fmt::format("of set {}", i)};
    open();
  }
  EXPECT_TRUE(open()->summary().from_cache);
  options_.columns = {"of set 0"};
  EXPECT_FALSE(open()->summary().from_cache) << "the oldest";
  options_.columns = {"of set 9"};
  std::fstream file(options_.cache_path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-2, std::ios::end);  // of the last one's checksum
  const int byte = file.get();
  file.seekp(-2, std::ios::end);
  file.put(static_cast<char>(byte ^ 1));
  file.close();
  EXPECT_TRUE(open()->summary().from_cache);
  options_.columns = {"of set 2"};
  EXPECT_THAT(open()->summary().cache_problem, HasSubstr("made anew"));
  EXPECT_TRUE(open()->summary().from_cache);
}

TEST_F(IndexCacheFile, ThatCannotBeWrittenIsSaidOnceAndNoError) {
  folder_.write("file");
  std::filesystem::create_directory(folder_ / "folder");
  for (const char* wrong : {"file/index.cache", "folder"}) {
    options_.cache_path = (folder_ / wrong).string();
    const auto index = open();
    EXPECT_EQ(index->sample_count(), 18u);
    EXPECT_THAT(index->summary().cache_problem,
                StartsWith("index cache not written, so that files are opened anew each time: " +
                           options_.cache_path + ": "));
  }
}

TEST_F(IndexCacheFile, IsNotNeededWhereEachFileIsOneSample) {
  EXPECT_FALSE(open()->summary().needs_no_cache);
  put_generated(store_, "npy", 6, 1);
  options_.format = formats::find_format("npy");
  options_.samples_per_file = 1;
  const auto index = open();
  EXPECT_TRUE(index->summary().needs_no_cache);
  EXPECT_EQ(index->summary().cache_problem, "") << "tfrecord's is left as it is";
}

// A file of uneven blocks: in parts, whole, and of fill values.
formats::FileIndex block_layout() {
  formats::FileIndex layout{.access = formats::Access::kBlocks, .sample_count = 9};
  layout.blocks = {{0, 4, {{60, 20}, {0, 10}}}, {4, 4, {{10, 50}}}, {8, 1, {}}};
  layout.detail = "gzip 4";
  return layout;
}

// Answers block_layout() with the last block's samples grown to 1 + the file's bytes % 4.
const formats::Format& block_format() {
  static constexpr std::string_view kExtensions[] = {"block"};
  static const formats::Format blocks = [] {
    formats::Format format{};
    format.name = "blocks";
    format.extensions = kExtensions;
    format.recognises = [](std::span<const std::byte>) { return false; };
    format.index = [](storage::Store&, const storage::FileInfo& file,
                      const formats::FormatOptions&) -> Result<formats::FileIndex> {
      formats::FileIndex layout = block_layout();
      layout.blocks[2].sample_count += file.size % 4;
      layout.sample_count += file.size % 4;
      return layout;
    };
    return format;
  }();
  return blocks;
}

TEST(IndexBlocks, AreLocatedAsANaiveCountDoes) {
  StoreForTest store;
  for (int i = 0; i < 50; ++i)
    store.put(fmt::format("{:02}.block", i), std::string(100 + static_cast<size_t>(i % 3), 'x'));
  IndexOptions options;
  options.format = &block_format();
  const auto index = Index::open(store, options).take();
  uint64_t sample = 0;
  for (uint32_t file = 0; file < 50; ++file) {
    const formats::FileIndex& layout = index->file_index(file);
    for (uint32_t block = 0; block < layout.blocks.size(); ++block)
      for (uint64_t i = 0; i < layout.blocks[block].sample_count; ++i, ++sample) {
        const SampleLocation where = index->locate(sample);
        ASSERT_EQ(where.access, formats::Access::kBlocks);
        ASSERT_EQ(where.file, file);
        ASSERT_EQ(where.block, block);
        ASSERT_EQ(where.sample_in_block, i);
        ASSERT_EQ(where.sample_in_file, layout.blocks[block].first_sample + i);
        ASSERT_EQ(where.extent.length, block == 0 ? 30u : block == 1 ? 50u : 0u);
      }
  }
  EXPECT_EQ(index->sample_count(), sample);
  EXPECT_TRUE(index->has_blocks());
  EXPECT_FALSE(index->is_together());
  EXPECT_FALSE(index->has_even_blocks());
  EXPECT_EQ(index->unit_samples_max(), 4u);
  EXPECT_EQ(index->block_bytes_max(), 50u);
}

TEST(IndexBlocks, OfFilesLaidOutAlikeAreStoredOnce) {
  SampleTable samples;
  const uint32_t first = samples.intern(block_layout());
  EXPECT_EQ(samples.intern(block_layout()), first);
  formats::FileIndex other = block_layout();
  other.detail = "gzip 5";
  EXPECT_NE(samples.intern(other), first);
  other = block_layout();
  other.blocks[0].extents[1].offset = 1;
  EXPECT_NE(samples.intern(other), first);
  other = block_layout();
  other.blocks[0].extents.pop_back();
  EXPECT_NE(samples.intern(other), first);
  other = block_layout();
  other.extent_array = formats::ArrayLayout{};
  EXPECT_NE(samples.intern(other), first);
  EXPECT_EQ(samples.layout_count(), 5u);
}

TEST(IndexBlocks, ThatContradictThemselvesAreNoLayout) {
  EXPECT_TRUE(check_layout(block_layout(), 80).ok());
  EXPECT_FALSE(check_layout(block_layout(), 79).ok()) << "outside the file";
  const auto is_refused = [](const std::function<void(formats::FileIndex&)>& damage) {
    formats::FileIndex layout = block_layout();
    damage(layout);
    return !check_layout(layout, 1000).ok();
  };
  EXPECT_TRUE(is_refused([](auto& l) { l.blocks[1].first_sample = 5; }));
  EXPECT_TRUE(is_refused([](auto& l) { l.blocks[2].sample_count = 0; }));
  EXPECT_TRUE(is_refused([](auto& l) { l.blocks[2].sample_count = 2; }));
  EXPECT_TRUE(is_refused([](auto& l) { l.blocks[2].sample_count = UINT64_MAX - 7; }));
  EXPECT_TRUE(is_refused([](auto& l) { l.sample_count = 10; }));
  EXPECT_TRUE(is_refused([](auto& l) { l.blocks.pop_back(); }));
  EXPECT_TRUE(is_refused([](auto& l) { l.extents = {{0, 1}}; }));
  EXPECT_TRUE(is_refused([](auto& l) { l.access = formats::Access::kTogether; }));
  EXPECT_TRUE(is_refused([](auto& l) { l.blocks[1].extents[0].offset = UINT64_MAX; }));
}

TEST(IndexBlocks, OutsideTheirFileAreAnErrorThatNamesIt) {
  StoreForTest store;
  store.put("short.block", std::string(64, 'x'));
  IndexOptions options;
  options.format = &block_format();
  const auto index = Index::open(store, options);
  ASSERT_FALSE(index.ok());
  EXPECT_EQ(index.error().code, ErrorCode::kCorruption);
  EXPECT_THAT(index.error().message, HasSubstr("short.block"));
}

TEST(IndexBlocks, ComeBackFromTheCache) {
  ScratchFolder folder;
  StoreForTest store;
  for (int i = 0; i < 5; ++i)
    store.put(fmt::format("{}.block", i), std::string(100 + static_cast<size_t>(i), 'x'));
  IndexOptions options;
  options.format = &block_format();
  options.cache_path = (folder / "index.cache").string();
  const auto first = Index::open(store, options).take();
  const auto second = Index::open(store, options).take();
  EXPECT_TRUE(second->summary().from_cache);
  ASSERT_EQ(second->sample_count(), first->sample_count());
  for (uint64_t i = 0; i < first->sample_count(); ++i) {
    EXPECT_EQ(second->locate(i).block, first->locate(i).block);
    EXPECT_EQ(second->locate(i).extent.length, first->locate(i).extent.length);
  }
  EXPECT_EQ(second->file_index(0).detail, "gzip 4");
  options.columns = {"a"};
  EXPECT_FALSE(Index::open(store, options).take()->summary().from_cache);
}

// Opening a file costs a round trip; a far store answers many at once.
TEST(Index, AsksFarStoresForManyFilesAtOnce) {
  static std::atomic<int> now, most;
  now = most = 0;
  StoreForTest store;
  store.caps.in_flight_max = 24;
  for (int i = 0; i < 48; ++i) store.put(fmt::format("{:02}.block", i), std::string(100, 'x'));
  formats::Format format = block_format();
  format.index = [](storage::Store&, const storage::FileInfo&,
                    const formats::FormatOptions&) -> Result<formats::FileIndex> {
    const int at_once = ++now;
    int seen = most;
    while (at_once > seen && !most.compare_exchange_weak(seen, at_once)) {
    }
    base::Clock& clock = base::monotonic_clock();
    // Waits for the others, as a round trip would let them come; ends in any case.
    for (int i = 0; i < 2000 && most < 24; ++i)
      clock.sleep_until_ns(clock.now_ns() + 1'000'000, {});
    --now;
    return block_layout();
  };
  IndexOptions options;
  options.format = &format;
  options.threads = 4;
  EXPECT_EQ(Index::open(store, options).take()->sample_count(), 48u * 9);
  EXPECT_EQ(most, 24);
}

std::vector<std::byte> sample_cache() {
  FileTable files;
  SampleTable samples;
  files.add({"a.tfrecord", 100, 11});
  files.add({"folder/b.tfrecord", 50, 12});
  files.add({"c.block", 90, 13});
  files.add({"d.raw", 60, 14});
  formats::FileIndex records{formats::Access::kExtents, 3, {{0, 10}, {10, 20}, {30, 20}}};
  records.extent_array = formats::ArrayLayout{.type = formats::ElementType::kF32, .shape = {2, 3}};
  const uint32_t extents = samples.intern(records);
  const uint32_t together = samples.intern({formats::Access::kTogether, 9, {}});
  formats::FileIndex cut{formats::Access::kTogether, 9, {}};
  cut.damage = formats::FileDamage{41, "truncated"};
  EXPECT_NE(samples.intern(cut), together);
  const uint32_t even =
      samples.intern({formats::Access::kExtents, 4, formats::ExtentList::even({10, 5}, 15, 4)});
  EXPECT_TRUE(samples.assign({extents, together, samples.intern(block_layout()), even}).ok());
  return IndexCache::encode(files, samples, 77);
}

void set_checksum(std::vector<std::byte>& bytes) {
  const size_t body = bytes.size() - 4;
  const uint32_t crc = base::crc32c(0, std::span(bytes).first(body));
  std::memcpy(bytes.data() + body, &crc, sizeof crc);
}

TEST(IndexCache, DecodesWhatItEncoded) {
  const IndexCache cache = IndexCache::decode(sample_cache(), 77).take();
  EXPECT_EQ(cache.file_count(), 4u);
  ASSERT_NE(cache.find({"a.tfrecord", 100, 11}), nullptr);
  EXPECT_EQ(cache.find({"a.tfrecord", 100, 11})->extents[2].offset, 30u);
  EXPECT_EQ(cache.find({"folder/b.tfrecord", 50, 12})->sample_count, 9u);
  ASSERT_TRUE(cache.find({"a.tfrecord", 100, 11})->extent_array);
  EXPECT_EQ(cache.find({"a.tfrecord", 100, 11})->extent_array->type, formats::ElementType::kF32);
  EXPECT_THAT(cache.find({"a.tfrecord", 100, 11})->extent_array->shape, ElementsAre(2, 3));
  const formats::FileIndex* blocks = cache.find({"c.block", 90, 13});
  ASSERT_NE(blocks, nullptr);
  EXPECT_EQ(blocks->detail, "gzip 4");
  ASSERT_EQ(blocks->blocks.size(), 3u);
  EXPECT_EQ(blocks->blocks[1].first_sample, 4u);
  EXPECT_EQ(blocks->blocks[0].extents[1].length, 10u);
  ASSERT_NE(cache.find({"d.raw", 60, 14}), nullptr);
  EXPECT_EQ(cache.find({"d.raw", 60, 14})->extents,
            (formats::ExtentList{{10, 5}, {25, 5}, {40, 5}, {55, 5}}));
  EXPECT_EQ(cache.find({"a.tfrecord", 101, 11}), nullptr);
  EXPECT_EQ(cache.find({"a.tfrecord", 100, 12}), nullptr);
  EXPECT_EQ(cache.find({"c.tfrecord", 100, 11}), nullptr);
  EXPECT_FALSE(IndexCache::decode(sample_cache(), 78).ok());
}

// megatron_deepspeed has so many samples in one file.
TEST(SampleTable, RecordsOfOneSizeCostNothingASample) {
  constexpr uint64_t kSamples = 277'203'535, kBytes = 2048;
  SampleTable samples;
  const formats::FileIndex file{formats::Access::kExtents, kSamples,
                                formats::ExtentList::even({0, kBytes}, kBytes, kSamples)};
  const uint32_t number = samples.intern(file);
  EXPECT_EQ(samples.intern(file), number);
  ASSERT_TRUE(samples.assign({number}).ok());
  EXPECT_EQ(samples.of_file(0).extents.heap_bytes(), 0u);
  const SampleTable::Place last = samples.find(kSamples - 1);
  EXPECT_EQ(samples.of_file(0).extents[last.sample_in_file].offset, (kSamples - 1) * kBytes);
  FileTable files;
  files.add({"megatron.bin", kSamples * kBytes, 1});
  const std::vector<std::byte> cache = IndexCache::encode(files, samples, 5);
  EXPECT_LT(cache.size(), 200u);
  const auto read = IndexCache::decode(cache, 5);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->find({"megatron.bin", kSamples * kBytes, 1})->extents, file.extents);
}

TEST(IndexCache, RefusesTruncationAtEveryByteEvenWithARightChecksum) {
  const std::vector<std::byte> whole = sample_cache();
  for (size_t length = 0; length < whole.size(); ++length) {
    std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(IndexCache::decode(cut, 77).ok()) << length;
    if (length < 4) continue;
    set_checksum(cut);
    EXPECT_FALSE(IndexCache::decode(cut, 77).ok()) << length;
  }
}

TEST(IndexCache, RefusesEveryFlippedBit) {
  for (size_t bit = 0; bit < sample_cache().size() * 8; ++bit) {
    std::vector<std::byte> bytes = sample_cache();
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(IndexCache::decode(bytes, 77).ok()) << bit;
  }
}

// With the checksum made right again, what is accepted must still lie inside its files.
TEST(IndexCache, NeverAcceptsSamplesOutsideTheirFile) {
  base::Random random(3);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = sample_cache();
    for (uint64_t i = 0; i <= random.below(3); ++i)
      bytes[8 + random.below(bytes.size() - 12)] = static_cast<std::byte>(random.next());
    set_checksum(bytes);
    const auto cache = IndexCache::decode(bytes, 77);
    if (!cache.ok()) continue;
    ++accepted;
    const auto* with_blocks = cache->find({"c.block", 90, 13});
    if (with_blocks != nullptr) {
      ASSERT_TRUE(check_layout(*with_blocks, 90).ok());
    }
    for (const auto* layout :
         {cache->find({"a.tfrecord", 100, 11}), cache->find({"d.raw", 60, 14})}) {
      if (layout == nullptr || layout->access != formats::Access::kExtents) continue;
      ASSERT_EQ(layout->extents.size(), layout->sample_count);
      const uint64_t looked_at = std::min<uint64_t>(1000, layout->sample_count);  // may be any
      for (uint64_t i = 0; i < looked_at; ++i)
        ASSERT_LE(layout->extents[i].offset + layout->extents[i].length, 100u);
      ASSERT_LE(layout->extents.back().offset + layout->extents.back().length, 100u);
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace forebay::dataset
