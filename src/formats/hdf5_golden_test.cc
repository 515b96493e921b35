// Goal: HDF5 files mean what h5py says they mean, whoever wrote them.
// Method: tests/golden/hdf5 holds h5py's files with their elements; with h5py at hand, files of
// others are dumped by it and compared, and it reads what we write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "base/test_folder.h"
#include "formats/builtin.h"
#include "formats/hdf5_plan.h"
#include "formats/payload.h"
#include "formats/testing_hdf5.h"
#include "formats/testing_store.h"

namespace forebay::formats {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

fs::path golden() {
  return fs::path(base::source_folder()) / "tests/golden";
}

Bytes load(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void save(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
}

std::string describe(const ArrayLayout& array) {
  std::string text(element_name(array.type));
  for (const uint64_t n : array.shape) text += " " + std::to_string(n);
  return text;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Reads the file whole and compares it with what is expected: "type shape" or "error: part".
void expect_file(const fs::path& path, const std::string& expected, const fs::path& raw,
                 const std::vector<std::string>& names) {
  SCOPED_TRACE(path.string() + " " + (names.empty() ? "" : names.front()));
  TestingStore store;
  store.put("f.h5", load(path));
  const auto got = read_all_samples(store, "f.h5", {.columns = names});
  if (expected.starts_with("error: ")) {
    ASSERT_FALSE(got.ok()) << describe(got->array);
    EXPECT_THAT(got.error().message, testing::HasSubstr(expected.substr(7)));
    EXPECT_THAT(got.error().message, testing::StartsWith("f.h5: "));
    return;
  }
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(describe(got->array), expected);
  EXPECT_TRUE(got->bytes == load(raw)) << "elements differ";
}

TEST(Hdf5Golden, ElementsAreThoseOfH5py) {
  int count = 0, refused = 0;
  for (const auto& entry : fs::directory_iterator(golden() / "hdf5")) {
    const fs::path path = entry.path();
    if (path.extension() != ".h5") continue;
    const std::string expected = first_line(fs::path(path).replace_extension(".txt"));
    expect_file(path, expected, fs::path(path).replace_extension(".raw"), {});
    ++(expected.starts_with("error: ") ? refused : count);
  }
  EXPECT_GE(count, 35);
  EXPECT_GE(refused, 12);
}

TEST(Hdf5Golden, SmallFilesCostOneRequestAndNeverTheirData) {
  TestingStore store;
  store.put("f.h5", load(golden() / "hdf5/many_chunks.h5"));
  const auto index = kHdf5.index(store, store.stat("f.h5").value(), {});
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(store.read_count(), 1u);
}

TEST(Hdf5Golden, FilesLaidOutAlikeShareTheirDetail) {
  TestingStore store;
  const auto detail = [&](uint64_t seed) {
    const FileSpec spec{.path = "f",
                        .rows = 9,
                        .columns = 8,
                        .sample_count = 3,
                        .compression = Compression::kGzip,
                        .seed = seed,
                        .chunk_dims = {1, 4, 4}};
    EXPECT_TRUE(write_with(kHdf5, store, "f", spec).ok());
    return kHdf5.index(store, store.stat("f").value(), {}).value().detail;
  };
  EXPECT_EQ(detail(1), detail(2));
  EXPECT_NE(detail(1), "");
}

// --- with h5py ---

class WithH5py : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("/usr/bin/python3 -c 'import h5py' >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "/usr/bin/python3 has no h5py";
  }
  int run(const std::string& script, const std::string& arguments = "") const {
    const std::string command = "/usr/bin/python3 '" + (golden() / script).string() + "' '" +
                                folder_.string() + "' " + arguments;
    return std::system(command.c_str());
  }
  const base::TestFolder own_{"hdf5"};
  const fs::path folder_ = own_.path();
};

fs::path real_data() {
  const char* from_environment = std::getenv("FOREBAY_REAL_DATA");
  if (from_environment != nullptr) return from_environment;
  return fs::path(base::source_folder()).parent_path() / "shared/real";
}

// Data sets that are not read, by file and name, and what the refusal says.
const std::map<std::string, std::string> kRefused = {
    {"references.hdf5 ref_dataset", "type reference"},
    {"references.hdf5 regionref_dataset", "type reference"},
    {"references.hdf5 chunked_ref_dataset", "type reference"},
    {"references.hdf5 chunked_regionref_dataset", "type reference"},
    {"vlen_string_dset.h5 DS1", "type variable-length string"},
    {"vlen_string_dset_utc.h5 ds1", "type variable-length string"},
};

TEST_F(WithH5py, FilesOfOthersHoldWhatH5pyReads) {
  std::string list;
  for (const char* folder : {"pyfive-hdf5", "h5py-files"}) {
    if (!fs::exists(real_data() / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(real_data() / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".hdf5" || extension == ".h5") list += entry.path().string() + "\n";
    }
  }
  if (list.empty()) GTEST_SKIP() << "no files under " << real_data() << " (FOREBAY_REAL_DATA)";
  save(folder_ / "files", std::as_bytes(std::span(list)));
  ASSERT_EQ(run("dump_hdf5.py", "< '" + (folder_ / "files").string() + "'"), 0);
  std::ifstream told(folder_ / "list");
  int compared = 0;
  std::map<std::string, std::string> not_met = kRefused;
  for (std::string number, expected, path, name;
       std::getline(told, number, '\t') && std::getline(told, expected, '\t') &&
       std::getline(told, path, '\t') && std::getline(told, name);) {
    const std::string key = fs::path(path).filename().string() + " " + name;
    const auto refusal = kRefused.find(key);
    const bool is_refused = refusal != kRefused.end();
    expect_file(path, is_refused ? "error: " + refusal->second : expected,
                folder_ / (number + ".raw"), {name});
    if (is_refused) not_met.erase(key);
    compared += is_refused ? 0 : 1;
  }
  EXPECT_THAT(not_met, testing::IsEmpty());
  EXPECT_GE(compared, 30);
  RecordProperty("data_sets_compared", compared);
}

std::string superblock_of(const FileSpec& spec) {
  return spec.dialect == Dialect::kMlpsV2 ? "0" : "3";
}

std::string chunks_of(const Hdf5Plan& plan) {
  if (plan.dataset.is_contiguous) return "none";
  std::string text;
  for (const uint64_t n : plan.dataset.chunk)
    text += (text.empty() ? "(" : ",") + std::to_string(n);
  return text + (plan.dataset.chunk.size() == 1 ? ",)" : ")");
}

std::vector<FileSpec> specs_to_write() {
  std::vector<FileSpec> specs;
  for (const Dialect dialect : {Dialect::kDlioMain, Dialect::kMlpsV2, Dialect::kMlpsV3})
    for (const Compression compression :
         {Compression::kNone, Compression::kGzip, Compression::kLzf})
      for (const auto& chunk : std::vector<std::vector<uint64_t>>{{}, {1, 7, 8}, {2, 5, 30}})
        specs.push_back({.path = "",
                         .rows = 33,
                         .columns = 30,
                         .sample_count = 5,
                         .compression = compression,
                         .dialect = dialect,
                         .seed = specs.size() + 1,
                         .chunk_dims = chunk});
  for (int type = 0; type <= static_cast<int>(ElementType::kC128); ++type)
    specs.push_back({.path = "",
                     .shape = {4, 6},
                     .type = static_cast<ElementType>(type),
                     .sample_count = 2,
                     .seed = specs.size() + 1});
  const FileSpec three{.path = "",
                       .rows = 33,
                       .columns = 30,
                       .sample_count = 4,
                       .seed = 77,
                       .datasets_per_record = 3};
  specs.push_back(three);
  specs.push_back(three);
  specs.back().compression = Compression::kLzf;
  specs.back().type = ElementType::kBool;  // shrinks
  specs.push_back(three);
  specs.back().chunk_dims = {3, 4, 40};
  specs.push_back(three);
  specs.back().max_shape = {0, 11, 30};
  specs.back().chunk_dims = {1, 11, 30};
  specs.push_back(three);
  specs.back().max_shape = {8, 0, 0};
  specs.back().compression = Compression::kGzip;
  specs.push_back({.path = "",
                   .shape = {9},
                   .type = ElementType::kF32,
                   .sample_count = 6000,
                   .compression_level = 9,
                   .seed = 3});
  specs.push_back(specs.back());
  specs.back().compression = Compression::kGzip;
  specs.push_back({.path = "",
                   .rows = 300,
                   .columns = 31,
                   .sample_count = 30,
                   .seed = 3,
                   .chunk_dims = {1, 3, 8}});
  specs.push_back(specs.back());
  specs.back().dialect = Dialect::kMlpsV2;
  specs.back().compression = Compression::kGzip;
  return specs;
}

TEST_F(WithH5py, H5pyReadsWhatWeWrite) {
  int number = 0;
  for (FileSpec spec : specs_to_write()) {
    const std::string name = fmt::format("{:03}", number++);
    SCOPED_TRACE(name);
    spec.path = name;
    TestingStore store;
    const Status written = write_with(kHdf5, store, name, spec, number % 2 == 0);
    ASSERT_TRUE(written.ok()) << written.error().message;
    const auto bytes = store.get(name);
    ASSERT_TRUE(write_with(kHdf5, store, name, spec, number % 2 != 0).ok());
    EXPECT_EQ(bytes, store.get(name)) << "with and without patching";
    EXPECT_LE(bytes.size(), kHdf5.estimate_bytes(spec));
    if (spec.compression == Compression::kNone) {
      EXPECT_EQ(bytes.size(), kHdf5.estimate_bytes(spec));
    }
    const auto read = read_all_samples(store, name, {});
    ASSERT_TRUE(read.ok()) << read.error().message;
    const Hdf5Plan plan = plan_hdf5(spec).value();
    std::string text;
    for (const std::string& set : plan.names) text += (text.empty() ? "" : ",") + set;
    text += fmt::format(" {} {} {} {}", element_name(spec.type), superblock_of(spec),
                        compression_name(spec.compression), chunks_of(plan));
    for (const uint64_t n : plan.dataset.array.shape) text += " " + std::to_string(n);
    save(folder_ / (name + ".hdf5"), bytes);
    save(folder_ / (name + ".raw"), read->bytes);
    save(folder_ / (name + ".txt"), std::as_bytes(std::span(text)));
  }
  EXPECT_EQ(run("check_hdf5.py", "> '" + (folder_ / "log").string() + "'"), 0);
  EXPECT_EQ(first_line(folder_ / "log"), std::to_string(number) + " files read");
}

}  // namespace
}  // namespace forebay::formats
