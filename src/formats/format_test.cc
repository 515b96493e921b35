// Goal: every format of the table reads back what it writes, names what is damaged, and judges a
// file in passing as it judges it whole. Loops over the table; facts of one format are in its own
// test.
#include "formats/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/random.h"
#include "formats/builtin.h"
#include "formats/payload.h"
#include "formats/testing_store.h"

namespace forebay::formats {
namespace {

FileSpec small_spec(std::string path = "train/a") {
  return {.path = std::move(path), .rows = 31, .columns = 17, .seed = 7};
}

// Sample `i` as a loader takes it from the file `bytes`; its size, or the error.
Result<size_t> sample_bytes(const Format& format, const FormatOptions& options,
                            std::string_view path, std::span<const std::byte> bytes,
                            const FileIndex& index, uint64_t i) {
  auto reader = format.make_reader(options);
  if (index.access == Access::kBlocks) {
    const auto after = std::find_if(index.blocks.begin(), index.blocks.end(),
                                    [i](const Block& block) { return block.first_sample > i; });
    const Block& block = *(after - 1);
    std::vector<std::byte> joined;
    for (const Extent& extent : block.extents) {
      const auto part = bytes.subspan(extent.offset, extent.length);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    const auto decoded = FB_TRY(reader->decode_block(path, joined, index, block));
    const Record record = FB_TRY(decoded->at(i - block.first_sample));
    return record.bytes.size();
  }
  if (index.access == Access::kExtents)
    bytes = bytes.subspan(index.extents[i].offset, index.extents[i].length);
  const Record record = FB_TRY(reader->read(path, bytes, index, i));
  return record.bytes.size();
}

// Whether the parts of the program that the format needs are there.
bool is_present(const Format& format) {
  TestingStore store;
  store.put("a", {});
  const auto index = format.index(store, {"a", 0, 0}, {});
  return index.ok() || index.error().message.find("forebay_") == std::string::npos;
}

class EveryFormat : public testing::TestWithParam<const Format*> {
 protected:
  void SetUp() override {
    if (!is_present(format())) GTEST_SKIP() << format().name << ": its module is not built";
  }
  const Format& format() const { return *GetParam(); }
  storage::FileInfo write(const FileSpec& spec, bool can_patch = true) {
    const Status status = write_with(format(), store_, spec.path, spec, can_patch);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return store_.stat(spec.path).value();
  }
  TestingStore store_;
};

// Formats whose files begin with nothing of their own are known by name only.
bool has_magic(const Format& format) {
  // A tar is known by more than the first 64 bytes.
  static const std::set<std::string_view> without{
      "csv", "indexed_binary", "lines",  "mmap_indexed_binary",
      "raw", "synthetic",      "tokens", "webdataset"};
  return !without.contains(format.name);
}

TEST_P(EveryFormat, ReadsBackOneSampleAndRecognisesIt) {
  const FileSpec spec = small_spec();
  const auto info = write(spec);
  const std::span<const std::byte> bytes = store_.get(spec.path);
  const auto head = bytes.first(std::min<size_t>(bytes.size(), 64));
  EXPECT_EQ(recognise_format("x.unknown", head), has_magic(format()) ? &format() : nullptr);
  EXPECT_EQ(recognise_format("x." + std::string(format().name), head), &format());
  const FormatOptions options{.record_bytes = has_magic(format()) ? 0 : record_bytes(spec)};
  const auto index = format().index(store_, info, options);
  ASSERT_TRUE(index.ok()) << index.error().message;
  EXPECT_EQ(index->sample_count, 1u);
  const auto size = sample_bytes(format(), options, spec.path, bytes, *index, 0);
  ASSERT_TRUE(size.ok()) << size.error().message;
  EXPECT_GE(*size, 31u * 17u);
}

// With every compression, and however the samples can be reached.
TEST_P(EveryFormat, ReadsBackThreeSamples) {
  if (format().name == "jpeg" || format().name == "png") GTEST_SKIP() << "one image a file";
  for (const Compression compression : format().compressions) {
    FileSpec spec = small_spec();
    spec.sample_count = 3;
    spec.compression = compression;
    const auto info = write(spec);
    const std::span<const std::byte> bytes = store_.get(spec.path);
    const FormatOptions options{.samples_per_file = 3, .record_bytes = record_bytes(spec)};
    const auto index = format().index(store_, info, options);
    ASSERT_TRUE(index.ok()) << index.error().message;
    ASSERT_EQ(index->sample_count, 3u) << compression_name(compression);
    for (uint64_t i = 0; i < 3; ++i) {
      const auto size = sample_bytes(format(), options, spec.path, bytes, *index, i);
      ASSERT_TRUE(size.ok()) << size.error().message;
      EXPECT_GE(*size, 31u * 17u);
    }
  }
}

TEST_P(EveryFormat, RefusesOtherCompressionsByName) {
  for (int i = 0; i < 6; ++i) {
    const auto compression = static_cast<Compression>(i);
    const auto taken = format().compressions;
    const bool is_taken = std::find(taken.begin(), taken.end(), compression) != taken.end();
    const Status status = check_compression(format(), compression);
    EXPECT_EQ(status.ok(), is_taken);
    if (is_taken) continue;
    const std::string wanted = std::string(format().name) + " takes none";
    EXPECT_NE(status.error().message.find(wanted), std::string::npos) << status.error().message;
  }
}

// What stands in for the data after a clone without git-lfs is named wherever it is read.
TEST_P(EveryFormat, GitLfsPointerIsNamed) {
  if (format().name == "synthetic") GTEST_SKIP() << "reads nothing";
  write(small_spec());  // for its index files
  const std::string text =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') +
      "\nsize 1234567\n";
  const auto pointer = std::as_bytes(std::span(text));
  store_.put("train/a", {pointer.begin(), pointer.end()});
  const auto info = store_.stat("train/a").value();
  for (const uint64_t samples : {1u, 3u}) {
    const FormatOptions options{.samples_per_file = samples};
    const auto index = format().index(store_, info, options);
    std::string message;
    if (!index.ok()) {
      message = index.error().message;
    } else {
      auto reader = format().make_reader(options);
      const auto record = reader->read("train/a", pointer, *index, 0);
      ASSERT_FALSE(record.ok());
      message = record.error().message;
    }
    EXPECT_EQ(message.find("train/a: "), 0u) << message;
    EXPECT_NE(message.find("git-lfs pointer"), std::string::npos) << message;
  }
}

TEST_P(EveryFormat, EstimateIsExactOrAnUpperBound) {
  const bool is_exact =
      format().name != "jpeg" && format().name != "csv" && format().name != "parquet";
  for (const uint64_t samples : {1u, 3u}) {
    FileSpec spec = small_spec();
    spec.sample_count = samples;
    const uint64_t size = write(spec).size;
    EXPECT_GE(format().estimate_bytes(spec), size);
    if (is_exact) {
      EXPECT_EQ(format().estimate_bytes(spec), size);
    }
  }
}

TEST_P(EveryFormat, CompressedEstimateIsAnUpperBound) {
  for (const uint64_t side : {1u, 300u, 2000u}) {
    FileSpec spec = small_spec();
    spec.rows = spec.columns = side;
    for (const Compression compression : format().compressions) {
      spec.compression = compression;
      EXPECT_GE(format().estimate_bytes(spec), write(spec).size)
          << side << " " << compression_name(compression);
    }
  }
}

TEST_P(EveryFormat, SameSeedGivesSameBytesWithAndWithoutPatching) {
  const FileSpec spec = small_spec();
  write(spec, true);
  const auto patched = store_.get(spec.path);
  write(spec, false);
  EXPECT_EQ(patched, store_.get(spec.path));
  FileSpec other = spec;
  other.seed = 8;
  write(other);
  if (format().name == "synthetic") return;  // holds its number, nothing random
  EXPECT_NE(patched, store_.get(spec.path));
}

TEST_P(EveryFormat, RefusesImpossibleSpecs) {
  for (const FileSpec& spec :
       {FileSpec{.path = "p"}, FileSpec{.path = "p", .rows = 1, .columns = 0},
        FileSpec{.path = "p", .rows = uint64_t{1} << 40, .columns = 1ull << 40}}) {
    const Status status = write_with(format(), store_, "p", spec);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(status.error().message.find("p:"), std::string::npos) << status.error().message;
  }
}

TEST_P(EveryFormat, EmptyFileIsNamed) {
  store_.put("train/empty", {});
  const auto info = store_.stat("train/empty").value();
  auto reader = format().make_reader({});
  const auto record = reader->read("train/empty", {}, FileIndex{}, 0);
  ASSERT_FALSE(record.ok());
  EXPECT_NE(record.error().message.find("train/empty"), std::string::npos);
  if (auto check = reader->make_stream_check()) {
    check->begin("train/empty", 0);
    EXPECT_FALSE(check->finish().ok());
  }
}

// Formats that can be checked in passing.
class EveryCheckedFormat : public EveryFormat {};

// The whole of the file in pieces of any size gives the verdict of the reader.
TEST_P(EveryCheckedFormat, CheckInPassingAcceptsGoodFilesHoweverTheyAreCut) {
  auto reader = format().make_reader({});
  auto check = reader->make_stream_check();
  for (const bool compress : {false, true}) {
    FileSpec spec = small_spec();
    spec.sample_count = 2;
    if (compress) spec.compression = format().compressions.back();
    const auto info = write(spec);
    const std::span<const std::byte> bytes = store_.get(spec.path);
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{64}, size_t{1000}, bytes.size()}) {
      check->begin(spec.path, info.size);
      for (size_t at = 0; at < bytes.size(); at += piece)
        check->visit(bytes.subspan(at, std::min(piece, bytes.size() - at)));
      const Status verdict = check->finish();
      if (spec.compression != Compression::kNone && format().name != "npz") {
        ASSERT_FALSE(verdict.ok());
        EXPECT_EQ(verdict.error().code, ErrorCode::kUnsupported);
        continue;
      }
      ASSERT_TRUE(verdict.ok()) << piece << " " << verdict.error().message;
      EXPECT_GE(check->payload_bytes(), 2u * 31 * 17);
    }
  }
}

TEST_P(EveryCheckedFormat, CheckInPassingFindsEveryTruncation) {
  auto reader = format().make_reader({});
  auto check = reader->make_stream_check();
  const FileSpec spec = small_spec();
  write(spec);
  const std::span<const std::byte> bytes = store_.get(spec.path);
  for (size_t n = 0; n < bytes.size(); ++n) {
    check->begin("a", n);
    check->visit(bytes.first(n));
    EXPECT_FALSE(check->finish().ok()) << n;
    EXPECT_FALSE(reader->read("a", bytes.first(n), FileIndex{}, 0).ok()) << n;
  }
  check->begin("a", bytes.size());
  check->visit(bytes.first(bytes.size() - 1));
  EXPECT_FALSE(check->finish().ok());  // the read delivered less than the file had
}

std::vector<const Format*> checked_formats() {
  std::vector<const Format*> checked;
  for (const Format* format : builtin_formats())
    if (format->make_reader({})->make_stream_check() != nullptr) checked.push_back(format);
  return checked;
}

std::string name_of(const testing::TestParamInfo<const Format*>& info) {
  return std::string(info.param->name);
}
INSTANTIATE_TEST_SUITE_P(Table, EveryFormat, testing::ValuesIn(builtin_formats()), name_of);
INSTANTIATE_TEST_SUITE_P(Table, EveryCheckedFormat, testing::ValuesIn(checked_formats()), name_of);

TEST(Formats, NamesAndExtensionsFindThem) {
  EXPECT_EQ(find_format("JPG"), &kJpeg);
  EXPECT_EQ(find_format("npz"), &kNpz);
  EXPECT_EQ(find_format("nonesuch"), nullptr);
  EXPECT_EQ(recognise_format("a/b.png", {}), &kPng);
  EXPECT_EQ(recognise_format("a.d/b", {}), nullptr);
  EXPECT_EQ(extension_of("a.b/c.CSV.GZ"), "csv.gz");
  EXPECT_EQ(extension_of("a/b.npz.gz"), "gz");
  EXPECT_EQ(extension_of("a/b.tar.gz"), "tar.gz");
  EXPECT_EQ(extension_of("a/.csv"), "");
  EXPECT_EQ(extension_of("a/b.tfrecord.gz"), "tfrecord.gz");
  EXPECT_EQ(extension_of("a/b.tfrecord-00003-of-00010"), "tfrecord");
  EXPECT_EQ(extension_of("a/b-00003-of-00010"), "");
  for (const char* name : {"b.x-of-3", "b.x-3-of-", "b.x3-of-4", "b.x-3of-4"})
    EXPECT_EQ(extension_of(name), std::string_view(name).substr(2)) << name;
  EXPECT_EQ(extension_of("a.csv/b"), "");
}

TEST(Formats, CompressedCsvIsNotTakenForWhatItIsPackedIn) {
  const auto zip = std::as_bytes(std::span("PK\x03\x04 x.npy is the first name in here, maybe"));
  EXPECT_EQ(recognise_format("img_0_of_3.csv.zip", zip), &kCsv);
  EXPECT_EQ(recognise_format("img_0_of_3.csv.gz", {}), &kCsv);
  EXPECT_EQ(recognise_format("img_0_of_3.npz.gz", {}), nullptr);
}

TEST(Formats, ArrayBytesRefusesOverflow) {
  EXPECT_EQ(array_bytes({.shape = {}}).value(), 1u);
  EXPECT_EQ(array_bytes({.type = ElementType::kF64, .shape = {3, 4}}).value(), 96u);
  EXPECT_EQ(array_bytes({.shape = {uint64_t{1} << 63, 0, 4}}).value(), 0u);
  EXPECT_FALSE(array_bytes({.shape = {uint64_t{1} << 32, uint64_t{1} << 32}}).ok());
}

TEST(Formats, ElementNamesAreThoseOfNumpy) {
  for (int i = 0; i < 15; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(element_from_name(element_name(type)), type);
  }
  EXPECT_EQ(element_from_name("object"), std::nullopt);
}

TEST(Formats, NoFileIsMadeOfBfloat16) {
  TestingStore store;
  for (const Format* format : builtin_formats()) {
    if (format->check_write != nullptr && !format->check_write().ok()) continue;
    if (format->name == "jpeg" || format->name == "png") continue;  // always pixels of 8 bits
    const FileSpec spec{.path = "a", .rows = 4, .columns = 4, .type = ElementType::kBF16};
    const Status status = write_with(*format, store, "a", spec);
    ASSERT_FALSE(status.ok()) << format->name;
    EXPECT_EQ(status.error().code, ErrorCode::kUnsupported) << format->name;
  }
}

TEST(Raw, PartialRecordIsNamedWithSizes) {
  TestingStore store;
  store.put("r", TestingStore::Bytes(25));
  const auto index = kRaw.index(store, store.stat("r").value(), {.record_bytes = 10});
  ASSERT_FALSE(index.ok());
  EXPECT_EQ(index.error().message,
            "r: 25 bytes are 2 records of 10 bytes and 5 bytes of a partial record "
            "(the record size is dataset.record_length_bytes or --record-bytes)");
  store.put("r", TestingStore::Bytes(30));
  const uint64_t reads = store.read_count();
  const auto whole = kRaw.index(store, store.stat("r").value(), {.record_bytes = 10});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->sample_count, 3u);
  EXPECT_EQ(whole->extents[2].offset, 20u);
  EXPECT_EQ(store.read_count(), reads);  // computed, not read
}

TEST(ElementTypes, HaveBothOfNumpysNames) {
  for (const char* name : {"uint16", "u2", "<u2", "=u2"}) {
    const auto number = number_from_numpy(name);
    ASSERT_TRUE(number) << name;
    EXPECT_EQ(number->type, ElementType::kU16);
    EXPECT_FALSE(number->is_big_endian);
  }
  EXPECT_EQ(number_from_numpy("u8")->type, ElementType::kU64) << "of 8 bytes";
  EXPECT_TRUE(number_from_numpy(">f4")->is_big_endian);
  EXPECT_FALSE(number_from_numpy(">i1")->is_big_endian) << "one byte has no order";
  EXPECT_EQ(number_from_numpy("|b1")->type, ElementType::kBool);
  for (const char* name : {"", "<", "u3", "U4", "S2", "O", "M8", "uint", "<uint16"})
    EXPECT_FALSE(number_from_numpy(name)) << name;
}

}  // namespace
}  // namespace forebay::formats
