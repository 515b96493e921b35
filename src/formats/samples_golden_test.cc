// Goal: the parts of samples are what the reference libraries read from the same files.
// Method: tests/golden/make_samples.py made the files with tarfile, webdataset, protobuf, numpy,
// h5py and pyarrow, and wrote down what those read.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/test_folder.h"
#include "formats/builtin.h"
#include "formats/testing_samples.h"

namespace forebay::formats {
namespace {

namespace fs = std::filesystem;

fs::path golden() {
  return fs::path(base::source_folder()) / "tests/golden";
}

std::string load(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void put(TestingStore& store, const std::string& name) {
  const std::string text = load(golden() / name);
  const auto bytes = std::as_bytes(std::span(text));
  store.put(name, {bytes.begin(), bytes.end()});
}

// The file reads as NAME.samples says.
void expect_samples(const Format& format, const std::string& name, const std::string& expected,
                    const FormatOptions& options = {}, std::string_view without = "") {
  TestingStore store;
  put(store, name);
  if (&format == &kTokens) put(store, name.substr(0, name.size() - 4) + ".idx");
  const auto found = dump_samples(format, store, name, options, without);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(*found, load(golden() / (expected + ".samples"))) << name;
}

TEST(SamplesGolden, Webdataset) {
  for (const char* what : {"plain", "long", "strays"})
    for (const char* kind : {"ustar", "gnu", "pax"}) {
      const std::string name = fmt::format("webdataset/{}_{}", what, kind);
      expect_samples(kWebdataset, name + ".tar", name, {}, "label");
    }
  expect_samples(kWebdataset, "webdataset/size_pax.tar", "webdataset/size_pax", {}, "label");
  expect_samples(kWebdataset, "webdataset/packed.tar.gz", "webdataset/packed", {}, "label");
}

TEST(SamplesGolden, Examples) {
  expect_samples(kTfrecord, "examples/all.tfrecord", "examples/all");
  expect_samples(kTfrecord, "examples/packed.tfrecord", "examples/packed");
}

TEST(SamplesGolden, Lines) {
  for (const char* name : {"unix.jsonl", "windows.jsonl", "no_end.ndjson", "gaps.jsonl",
                           "marked.txt", "packed.jsonl.gz"})
    expect_samples(kLines, fmt::format("lines/{}", name), fmt::format("lines/{}", name));
}

TEST(SamplesGolden, Tokens) {
  for (const char* kind : {"u1", "i1", "i2", "i4", "i8", "f8", "f4", "u2"}) {
    const std::string name = fmt::format("tokens/{}", kind);
    expect_samples(kTokens, name + ".bin", name + "_windows", {.tokens_per_sample = 4});
    expect_samples(kTokens, name + ".bin", name + "_sequences");
  }
}

TEST(SamplesGolden, ArraysOfAnNpz) {
  for (const std::string name : {"arrays/stored", "arrays/deflated"})
    expect_samples(kNpz, name + ".npz", name, {.samples_per_file = 1});
}

TEST(SamplesGolden, DataSetsOfAnHdf5File) {
  for (const std::string name : {"arrays/plain", "arrays/gzip"})
    expect_samples(kHdf5, name + ".h5", name, {.columns = {"images", "set/labels"}});
}

TEST(SamplesGolden, ColumnsOfAParquetFile) {
  if (!kParquet.check_write().ok()) GTEST_SKIP() << "the module is not built";
  for (const std::string name : {"arrays/mixed", "arrays/even"})
    expect_samples(kParquet, name + ".parquet", name);
}

// The other direction: Python's tarfile reads what is generated, member by member.
TEST(SamplesGolden, PythonReadsTheTarsThatAreMade) {
  const base::TestFolder folder("tar");
  TestingStore store;
  for (const Compression compression : kWebdataset.compressions) {
    FileSpec spec{.path = "a", .rows = 31, .columns = 17, .sample_count = 3, .seed = 7};
    spec.compression = compression;
    ASSERT_TRUE(write_with(kWebdataset, store, "a", spec).ok());
    const auto& bytes = store.get("a");
    const fs::path path = fs::path(folder.path()) / "a.tar";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    const std::string command = fmt::format(
        "python3 -c \"import tarfile; t = tarfile.open('{}'); m = t.getmembers(); "
        "assert [(x.name, x.size) for x in m][:3] == [('000000000.bin', 527), ('000000000.cls', "
        "1), "
        "('000000001.bin', 527)], m; assert len(m) == 6; "
        "assert t.extractfile(m[5]).read() == b'2'\"",
        path.string());
    if (std::system("python3 -c 'import tarfile'") != 0) GTEST_SKIP() << "python3 is absent";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
}

}  // namespace
}  // namespace forebay::formats
