// Goal: agree with numpy and Pillow on files that either side wrote, and on real images.
// Method: tests/golden holds files with expected elements; two Python scripts there do the other
// direction and decode real images. What is not installed is skipped with the reason.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/test_folder.h"
#include "formats/builtin.h"
#include "formats/testing_store.h"
#include "ops/decode.h"

namespace forebay::ops {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

Bytes load(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  const std::string content = text.str();
  const auto bytes = std::as_bytes(std::span(content));
  return Bytes(bytes.begin(), bytes.end());
}

void save(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
}

fs::path golden() {
  return fs::path(base::source_folder()) / "tests/golden";
}

// What a .txt file beside the expected elements says.
struct Expected {
  std::string type;  // or "error:"
  std::vector<uint64_t> shape;
  std::string line;
};

Expected load_expected(const fs::path& path) {
  std::ifstream file(path);
  Expected expected;
  std::getline(file, expected.line);
  std::istringstream words(expected.line);
  words >> expected.type;
  for (uint64_t n = 0; words >> n;) expected.shape.push_back(n);
  return expected;
}

struct Decoded {
  std::string error;
  std::string type;
  std::vector<uint64_t> shape;
  Bytes bytes;
};

Decoded decode(const fs::path& path, const formats::Format& format, DecodeOptions options = {},
               uint64_t samples = 1, uint64_t sample = 0) {
  const Bytes bytes = load(path);
  formats::TestingStore store;
  store.put("f", bytes);
  const formats::FormatOptions format_options{.samples_per_file = samples};
  const auto index = format.index(store, store.stat("f").value(), format_options);
  if (!index.ok()) return {.error = index.error().message, .type = "", .shape = {}, .bytes = {}};
  auto reader = format.make_reader(format_options);
  std::span<const std::byte> part(bytes);
  if (index->access == formats::Access::kExtents)
    part = part.subspan(index->extents[sample].offset, index->extents[sample].length);
  const auto record = reader->read(path.filename().string(), part, *index, sample);
  if (!record.ok()) return {.error = record.error().message, .type = "", .shape = {}, .bytes = {}};
  auto decoder = make_decoder(options);
  const auto wanted = decoder->decoded_bytes("f", *record);
  const auto result = decoder->decode(path.filename().string(), *record, {});
  EXPECT_TRUE(!result.ok() || (wanted.ok() && *wanted == result->bytes.size())) << path;
  if (!result.ok()) return {.error = result.error().message, .type = "", .shape = {}, .bytes = {}};
  // Into a destination the result is the same.
  Bytes destination(result->bytes.size() + 1);
  const Bytes first(result->bytes.begin(), result->bytes.end());
  const auto again = decoder->decode("f", *record, std::span(destination).first(first.size()));
  EXPECT_TRUE(again.ok() && std::equal(first.begin(), first.end(), again->bytes.begin())) << path;
  if (!first.empty() && again.ok()) {
    EXPECT_EQ(again->bytes.data(), destination.data()) << path;
  }
  return {.error = "",
          .type = std::string(formats::element_name(result->type)),
          .shape = result->shape,
          .bytes = first};
}

int largest_difference(const Bytes& a, const Bytes& b) {
  int largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(static_cast<int>(a[i]) - static_cast<int>(b[i])));
  return largest;
}

void expect_golden(const std::string& folder, const formats::Format& format, int tolerance,
                   DecodeOptions options = {}) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(golden() / folder)) {
    const fs::path path = entry.path();
    const fs::path beside = fs::path(path).replace_extension(".txt");
    if (path.extension() == ".txt" || path.extension() == ".raw" || !fs::exists(beside)) continue;
    const Expected expected = load_expected(beside);
    const Decoded got = decode(path, format, options);
    EXPECT_EQ(got.error, "") << path;
    EXPECT_EQ(got.type, expected.type) << path;
    EXPECT_EQ(got.shape, expected.shape) << path;
    const Bytes wanted = load(fs::path(path).replace_extension(".raw"));
    EXPECT_EQ(got.bytes.size(), wanted.size()) << path;
    EXPECT_LE(largest_difference(got.bytes, wanted), tolerance) << path;
    ++count;
  }
  EXPECT_GE(count, 5) << folder;
}

TEST(Golden, NpyElementsAreNumpys) {
  expect_golden("npy", formats::kNpy, 0);
}
TEST(Golden, NpzElementsAreNumpys) {
  expect_golden("npz", formats::kNpz, 0);
}
TEST(Golden, PngPixelsArePillows) {
  expect_golden("png", formats::kPng, 0, {.keep_16_bit = true});
}
TEST(Golden, JpegPixelsArePillows) {
  expect_golden("jpeg", formats::kJpeg, 1);
}

TEST(Golden, CsvNumbersAreThoseOfTheWriters) {
  expect_golden("csv", formats::kCsv, 0);
  for (const char* name : {"main.csv", "v2.csv", "named.csv", "module.csv", "gzip.csv.gz",
                           "bzip2.csv.bz2", "xz.csv.xz", "zip.csv.zip"})
    for (uint64_t i = 0; i < 3; ++i) {
      const Decoded got = decode(golden() / "csv" / name, formats::kCsv, {}, 3, i);
      EXPECT_EQ(got.error, "") << name;
      EXPECT_EQ(got.type, "int64");
      EXPECT_EQ(got.shape, std::vector<uint64_t>{4});
      EXPECT_EQ(got.bytes, load(golden() / ("csv/line_" + std::to_string(i) + ".raw"))) << name;
    }
}

TEST(Golden, IndexedSamplesAreFoundWithTheOffsetsOfAllWriters) {
  for (const char* name : {"right", "buffers", "collective"}) {
    const std::string path = std::string(name) + ".indexed_binary";
    formats::TestingStore store;
    for (const char* suffix : {"", ".off.idx", ".sz.idx"})
      store.put(path + suffix, load(golden() / "indexed" / (path + suffix)));
    const Bytes& bytes = store.get(path);
    const auto index =
        formats::kIndexedBinary.index(store, store.stat(path).value(), {.samples_per_file = 3});
    ASSERT_TRUE(index.ok()) << index.error().message;
    ASSERT_EQ(index->sample_count, 3u);
    auto reader = formats::kIndexedBinary.make_reader({});
    for (uint64_t i = 0; i < 3; ++i) {
      const formats::Extent extent = index->extents[i];
      const auto part = std::span<const std::byte>(bytes).subspan(extent.offset, extent.length);
      const auto record = reader->read(path, part, *index, i);
      ASSERT_TRUE(record.ok());
      ASSERT_EQ(record->bytes.size(), 5u);
      EXPECT_EQ(record->bytes[0], std::byte(5 * i)) << name;
    }
  }
}

TEST(Golden, RefusedArraysNameTheCause) {
  EXPECT_EQ(decode(golden() / "npy/refused_object.npy", formats::kNpy).error,
            "refused_object.npy: dtype object ('|O') needs pickle, which Forebay never runs");
  EXPECT_NE(decode(golden() / "npy/refused_struct.npy", formats::kNpy).error, "");
  EXPECT_NE(decode(golden() / "npy/refused_string.npy", formats::kNpy).error, "");
  EXPECT_NE(decode(golden() / "npz/bzip2.npz", formats::kNpz).error.find("compression method 12"),
            std::string::npos);
}

TEST(Golden, InterleavedSamplesAreSlicesOfTheLastAxis) {
  for (uint64_t i = 0; i < 3; ++i) {
    const Decoded got = decode(golden() / "npz/three_samples.npz", formats::kNpz, {}, 3, i);
    EXPECT_EQ(got.error, "");
    EXPECT_EQ(got.shape, (std::vector<uint64_t>{5, 4}));
    EXPECT_EQ(got.bytes, load(golden() / ("npz/three_samples_" + std::to_string(i) + ".raw")));
  }
}

TEST(Golden, TfrecordsAreWhatPythonWrote) {
  for (const char* name : {"plain", "gzip", "zlib"})
    for (uint64_t i = 0; i < 4; ++i) {
      formats::TestingStore store;
      const Bytes bytes = load(golden() / "tfrecord" / (std::string(name) + ".tfrecord"));
      store.put("f", bytes);
      const auto index = formats::kTfrecord.index(store, store.stat("f").value(), {});
      ASSERT_TRUE(index.ok()) << name << " " << index.error().message;
      ASSERT_EQ(index->sample_count, 4u);
      std::span<const std::byte> part(bytes);
      if (index->access == formats::Access::kExtents)
        part = part.subspan(index->extents[i].offset, index->extents[i].length);
      auto reader = formats::kTfrecord.make_reader({});
      const auto record = reader->read("f", part, *index, i);
      ASSERT_TRUE(record.ok()) << record.error().message;
      const Bytes wanted = load(golden() / ("tfrecord/record_" + std::to_string(i) + ".raw"));
      EXPECT_TRUE(
          std::equal(wanted.begin(), wanted.end(), record->bytes.begin(), record->bytes.end()));
    }
}

TEST(Golden, AllOrientationsShowTheSamePicture) {
  // The stored picture is the same in all eight files, so turning it gives eight views of it; each
  // must be the first one, turned.
  const Decoded upright = decode(golden() / "jpeg/orientation_1.jpg", formats::kJpeg);
  const uint64_t height = upright.shape[0], width = upright.shape[1];
  for (int orientation = 2; orientation <= 8; ++orientation) {
    const Decoded got = decode(
        golden() / ("jpeg/orientation_" + std::to_string(orientation) + ".jpg"), formats::kJpeg);
    const bool swaps = orientation >= 5;
    ASSERT_EQ(got.shape[0], swaps ? width : height) << orientation;
    const uint64_t corner_row = orientation == 3 || orientation == 4   ? height - 1
                                : orientation == 7 || orientation == 8 ? width - 1
                                                                       : 0;
    const uint64_t corner_column = orientation == 2 || orientation == 3   ? width - 1
                                   : orientation == 6 || orientation == 7 ? height - 1
                                                                          : 0;
    const uint64_t at = (corner_row * got.shape[1] + corner_column) * 3;
    for (uint64_t c = 0; c < 3; ++c) EXPECT_EQ(got.bytes[at + c], upright.bytes[c]) << orientation;
    const Decoded ignored =
        decode(golden() / ("jpeg/orientation_" + std::to_string(orientation) + ".jpg"),
               formats::kJpeg, {.apply_orientation = false});
    EXPECT_EQ(ignored.bytes, upright.bytes);
  }
}

// --- with Python ---

class WithPython : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("/usr/bin/python3 -c 'import numpy, PIL' >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "/usr/bin/python3 has no numpy or Pillow";
  }
  int run(const std::string& script, const std::string& arguments) const {
    const std::string command = "/usr/bin/python3 '" + (golden() / script).string() + "' '" +
                                folder_.string() + "' " + arguments;
    return std::system(command.c_str());
  }
  const base::TestFolder own_{"golden"};
  const fs::path folder_ = own_.path();
};

TEST_F(WithPython, NumpyAndPillowReadWhatWeWrite) {
  formats::TestingStore store;
  using formats::Compression;
  const auto write = [&](const formats::Format& format, const std::string& name,
                         Compression compression = Compression::kNone,
                         formats::Dialect dialect = formats::Dialect::kDlioMain) {
    const formats::FileSpec spec{.path = name,
                                 .rows = 32,
                                 .columns = 30,
                                 .sample_count = 2,
                                 .compression = compression,
                                 .dialect = dialect,
                                 .seed = 5};
    ASSERT_TRUE(formats::write_with(format, store, name, spec).ok());
    save(folder_ / name, store.get(name));
    if (format.side_paths == nullptr || name.ends_with(".tfrecord")) return;
    for (const std::string& side : format.side_paths(name)) save(folder_ / side, store.get(side));
  };
  write(formats::kRaw, "x.raw");
  write(formats::kNpy, "a.npy");
  write(formats::kNpz, "a.npz");
  write(formats::kNpz, "z.npz", Compression::kZip);
  write(formats::kTfrecord, "a.tfrecord");
  write(formats::kTfrecord, "z.tfrecord", Compression::kGzip);
  write(formats::kCsv, "a.csv");
  write(formats::kCsv, "v2.csv", Compression::kNone, formats::Dialect::kMlpsV2);
  for (const Compression compression : formats::kCsv.compressions)
    if (compression != Compression::kNone)
      write(formats::kCsv, "a.csv" + std::string(formats::kCsv.name_suffix(compression)),
            compression);
  write(formats::kIndexedBinary, "a.indexed_binary");
  write(formats::kMmapIndexedBinary, "a.mmap_indexed_binary");
  write(formats::kJpeg, "a.jpeg");
  write(formats::kPng, "a.png");
  EXPECT_EQ(run("check_written.py", "> " + (folder_ / "log").string()), 0);
}

fs::path real_data() {
  const char* from_environment = std::getenv("FOREBAY_REAL_DATA");
  if (from_environment != nullptr) return from_environment;
  return fs::path(base::source_folder()).parent_path() / "shared/real";
}

std::vector<fs::path> images_below(const std::vector<std::string>& folders) {
  std::vector<fs::path> images;
  for (const std::string& folder : folders) {
    if (!fs::exists(real_data() / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(real_data() / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".jpg" || extension == ".png" || extension == ".JPEG")
        images.push_back(entry.path());
    }
  }
  std::sort(images.begin(), images.end());
  return images;
}

// Pillow gives grey images with a colour key no alpha channel, and 16-bit grey with alpha as RGBA.
void match_channels(Decoded& got, const std::vector<uint64_t>& shape) {
  if (got.shape.size() != 3 || shape.size() != 3 || got.shape[2] != 2) return;
  Bytes bytes;
  for (size_t i = 0; i < got.bytes.size(); i += 2) {
    for (uint64_t c = 0; c < (shape[2] == 4 ? 3 : 1); ++c) bytes.push_back(got.bytes[i]);
    if (shape[2] != 1) bytes.push_back(got.bytes[i + 1]);
  }
  got.bytes = std::move(bytes);
  got.shape[2] = shape[2];
}

// Pillow refuses this one for the resolution in its EXIF block; its pixels are whole.
bool only_pillow_refuses(const std::string& name) {
  return name == "truncated_exif_dpi.jpg";
}

TEST_F(WithPython, RealImagesDecodeAsPillowDecodesThem) {
  const auto images = images_below({"pngsuite", "pillow-images", "exif-orientation", "dali-extra"});
  if (images.empty()) GTEST_SKIP() << "no images under " << real_data() << " (FOREBAY_REAL_DATA)";
  std::string list;
  for (const fs::path& image : images) list += image.string() + "\n";
  save(folder_ / "list", std::as_bytes(std::span(list)));
  ASSERT_EQ(run("dump_pixels.py", "< " + (folder_ / "list").string()), 0);
  int compared = 0, refused = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const std::string name = images[i].filename().string();
    const Expected expected = load_expected(folder_ / (std::to_string(i) + ".txt"));
    Decoded got = decode(images[i], formats::kJpeg);
    match_channels(got, expected.shape);
    if (only_pillow_refuses(name)) continue;
    if (expected.type == "error:") {
      EXPECT_NE(got.error, "") << name << ": Pillow says " << expected.line;
      EXPECT_EQ(got.error.substr(0, name.size()), name);
      ++refused;
      continue;
    }
    EXPECT_EQ(got.error, "") << name << ": Pillow says " << expected.line;
    EXPECT_EQ(got.shape, expected.shape) << name << " " << expected.line;
    const Bytes wanted = load(folder_ / (std::to_string(i) + ".raw"));
    if (got.bytes.size() == wanted.size()) {
      EXPECT_LE(largest_difference(got.bytes, wanted), 1) << images[i];
    }
    ++compared;
  }
  EXPECT_GE(compared, 100);
  RecordProperty("images_compared", compared);
  RecordProperty("images_refused_by_both", refused);
}

}  // namespace
}  // namespace forebay::ops
