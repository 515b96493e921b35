// Goal: TFRecord files, plain and compressed, are indexed and read; each defect is named with its
// place.
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/crc.h"
#include "formats/builtin.h"
#include "formats/testing_store.h"
#include "formats/tfrecord_check.h"
#include "formats/tfrecord_frame.h"
#include "formats/tfrecord_index.h"

namespace forebay::formats {
namespace {

using Bytes = std::vector<std::byte>;

void put_frame(Bytes& out, std::string_view data) {
  std::byte header[kFrameHeaderBytes], trailer[kFrameTrailerBytes];
  store_le<uint64_t>(header, data.size());
  store_le<uint32_t>(header + 8, mask_crc(base::crc32c(0, std::span(header, 8))));
  const auto bytes = std::as_bytes(std::span(data));
  store_le<uint32_t>(trailer, mask_crc(base::crc32c(0, bytes)));
  out.insert(out.end(), header, header + kFrameHeaderBytes);
  out.insert(out.end(), bytes.begin(), bytes.end());
  out.insert(out.end(), trailer, trailer + kFrameTrailerBytes);
}

Bytes three_records() {
  Bytes out;
  for (const char* data : {"first record", "second", "the third record"}) put_frame(out, data);
  return out;
}
constexpr size_t kSecond = 12 + 16;  // offset of record 1
constexpr size_t kThird = kSecond + 6 + 16;

// By zlib itself: 15 + 16 asks for a gzip wrapper, 15 for zlib's.
Bytes compress(const Bytes& plain, int window_bits) {
  Bytes out(plain.size() + 200);
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct Outcome {
  std::vector<std::string> samples;  // the data, or "error: ..."
  std::string index_error;
};

Outcome read_all(const Bytes& bytes) {
  TestingStore store;
  store.put("train/a", bytes);
  Outcome outcome;
  const auto index = kTfrecord.index(store, store.stat("train/a").value(), {});
  if (!index.ok()) {
    outcome.index_error = index.error().message;
    return outcome;
  }
  auto reader = kTfrecord.make_reader({});
  for (uint64_t i = 0; i < index->sample_count; ++i) {
    std::span<const std::byte> part(bytes);
    if (index->access == Access::kExtents)
      part = part.subspan(index->extents[i].offset, index->extents[i].length);
    const auto record = reader->read("train/a", part, *index, i);
    outcome.samples.push_back(
        record.ok()
            ? std::string(reinterpret_cast<const char*>(record->bytes.data()), record->bytes.size())
            : "error: " + record.error().message);
  }
  return outcome;
}

std::string check(const Bytes& bytes, size_t piece = 5) {
  auto stream = make_tfrecord_check();
  stream->begin("train/a", bytes.size());
  const std::span<const std::byte> all(bytes);
  for (size_t at = 0; at < bytes.size(); at += piece)
    stream->visit(all.subspan(at, std::min(piece, bytes.size() - at)));
  const Status verdict = stream->finish();
  return verdict.ok() ? "accepted" : verdict.error().message;
}

TEST(Tfrecord, PlainGzipAndZlibGiveTheSameRecords) {
  const std::vector<std::string> expected{"first record", "second", "the third record"};
  const Bytes plain = three_records();
  EXPECT_EQ(read_all(plain).samples, expected);
  EXPECT_EQ(check(plain), "accepted");
  for (const int window_bits : {15 + 16, 15}) {
    const Bytes packed = compress(plain, window_bits);
    EXPECT_EQ(read_all(packed).samples, expected) << read_all(packed).index_error;
    EXPECT_NE(check(packed).find("not checked in passing"), std::string::npos);
    for (const size_t n : {packed.size() - 1, packed.size() / 2, size_t{30}}) {
      Bytes cut = packed;
      cut.resize(n);
      EXPECT_NE(read_all(cut).index_error, "") << n;
    }
  }
  Bytes two = compress(plain, 15 + 16);  // gzip members may follow each other
  const Bytes again = two;
  two.insert(two.end(), again.begin(), again.end());
  EXPECT_EQ(read_all(two).samples.size(), 6u);
}

TEST(Tfrecord, BadDataCrcLosesOneRecordAndNamesIt) {
  Bytes bytes = three_records();
  bytes[kSecond + 12] ^= std::byte{1};
  const auto samples = read_all(bytes).samples;
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0], "first record");
  EXPECT_EQ(samples[2], "the third record");
  EXPECT_NE(samples[1].find("train/a: record 1 at byte 28: data CRC 0x"), std::string::npos)
      << samples[1];
  EXPECT_NE(check(bytes).find("train/a: record 1 at byte 28: data CRC 0x"), std::string::npos);
}

TEST(Tfrecord, BadLengthCrcLosesTheRestAndSaysSo) {
  for (const size_t at : {kSecond, kSecond + 7, kSecond + 9}) {
    Bytes bytes = three_records();
    bytes[at] ^= std::byte{0x7f};
    const auto samples = read_all(bytes).samples;
    ASSERT_EQ(samples.size(), 2u);
    EXPECT_EQ(samples[0], "first record");
    EXPECT_NE(samples[1].find("record 1 at byte 28: length CRC"), std::string::npos);
    EXPECT_NE(samples[1].find("the rest of the file is unreachable"), std::string::npos);
    EXPECT_NE(check(bytes).find("the rest of the file is unreachable"), std::string::npos);
  }
}

TEST(Tfrecord, CutMidRecordNamesTheByte) {
  for (size_t n = kSecond + 1; n < kThird; ++n) {
    Bytes bytes = three_records();
    bytes.resize(n);
    const auto samples = read_all(bytes).samples;
    ASSERT_EQ(samples.size(), 2u) << n;
    EXPECT_EQ(samples[0], "first record");
    const std::string place = "record 1 at byte 28: truncated at byte " + std::to_string(n);
    EXPECT_NE(samples[1].find(place), std::string::npos) << samples[1];
    EXPECT_NE(check(bytes).find(place), std::string::npos) << check(bytes);
  }
}

TEST(Tfrecord, LfsPointersAndOtherFilesAreNamed) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') +
      "\nsize 1234567\n";
  const auto lfs = std::as_bytes(std::span(pointer));
  const Bytes bytes(lfs.begin(), lfs.end());
  EXPECT_NE(read_all(bytes).index_error.find("git-lfs pointer"), std::string::npos);
  EXPECT_NE(check(bytes).find("git-lfs pointer"), std::string::npos);
  const std::string html = "<html><body>404 not found</body></html>";
  const auto page = std::as_bytes(std::span(html));
  EXPECT_NE(read_all(Bytes(page.begin(), page.end())).index_error.find("text/html"),
            std::string::npos);
}

TEST(Tfrecord, SideFileIsUsedOnlyWhenPlausible) {
  const uint64_t bytes = three_records().size();
  const std::string good = "0 28\n28 22\n50 32\n";
  ASSERT_EQ(bytes, 82u);
  EXPECT_EQ(parse_tfrecord_index(good, bytes).size(), 3u);
  for (const char* bad : {"0 28\n28 22\n", "0 28\n28 22\n50 33\n", "0 28\n30 20\n50 32\n",
                          "0 82 1\n", "x", "0 28\n28 -22\n50 32\n", "0 18446744073709551615\n"})
    EXPECT_TRUE(parse_tfrecord_index(bad, bytes).empty()) << bad;
  TestingStore store;
  store.put("train/a", three_records());
  const auto side = [](std::string_view path) { return kTfrecord.side_paths(path); };
  using Paths = std::vector<std::string>;
  EXPECT_EQ(side("train/a.tfrecord"), Paths{"index/train/a.tfrecord.idx"});
  EXPECT_EQ(side("d/valid/0/a"), Paths{"d/index/valid/0/a.idx"});
  EXPECT_EQ(side("a"), Paths{"index/a.idx"});
  const auto text = std::as_bytes(std::span(good));
  store.put("index/train/a.idx", Bytes(text.begin(), text.end()));
  const uint64_t before = store.bytes_read();
  const auto index = kTfrecord.index(store, store.stat("train/a").value(), {});
  EXPECT_EQ(index->sample_count, 3u);
  EXPECT_EQ(store.bytes_read() - before, good.size());  // the data file was not touched
}

TEST(Tfrecord, SideFileThatIsWrittenIsWhatAScanFinds) {
  TestingStore store;
  const FileSpec spec{.path = "f", .rows = 31, .columns = 7, .sample_count = 12, .seed = 3};
  ASSERT_TRUE(write_with(kTfrecord, store, "f", spec).ok());
  const auto writer = store.create("index/f.idx").value();
  ASSERT_TRUE(kTfrecord.write_side(*writer, spec, 0).ok());
  ASSERT_TRUE(writer->publish().ok());
  const auto& bytes = store.get("index/f.idx");
  const auto info = store.stat("f").value();
  const auto extents =
      parse_tfrecord_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, info.size);
  StoreSource source(store, info);
  const auto scanned = scan_frames(source).value();
  ASSERT_EQ(extents.size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(extents[i].offset, scanned[i].offset);
    EXPECT_EQ(extents[i].length, scanned[i].length);
  }
}

// The feature "size" ends each record, an int64 list of one packed varint.
TEST(Tfrecord, SizeFeatureIsBytesOrTheSideInFilesOfMlpsV2) {
  const auto size_of = [](Dialect dialect, std::vector<uint64_t> shape) {
    TestingStore store;
    const FileSpec spec{
        .path = "f", .rows = 31, .columns = 7, .shape = std::move(shape), .dialect = dialect};
    EXPECT_TRUE(write_with(kTfrecord, store, "f", spec).ok());
    const Bytes& bytes = store.get("f");
    const std::span data = std::span(bytes).first(bytes.size() - kFrameTrailerBytes);
    const auto last = static_cast<uint64_t>(data[data.size() - 1]);
    const auto before = static_cast<uint64_t>(data[data.size() - 2]);
    return before < 0x80 ? last : last << 7 | (before & 0x7f);
  };
  EXPECT_EQ(size_of(Dialect::kDlioMain, {}), 217u);
  EXPECT_EQ(size_of(Dialect::kMlpsV3, {}), 217u);
  EXPECT_EQ(size_of(Dialect::kMlpsV2, {}), 31u);
  EXPECT_EQ(size_of(Dialect::kDlioMain, {5, 9}), 45u);
  EXPECT_EQ(size_of(Dialect::kMlpsV2, {5, 9}), 5u);
}

TEST(Tfrecord, ScanReadsHeadersOnlyOfLargeRecords) {
  TestingStore store;
  const FileSpec spec{.path = "f", .rows = 1000, .columns = 1000, .sample_count = 5, .seed = 3};
  ASSERT_TRUE(write_with(kTfrecord, store, "f", spec).ok());
  const auto index = kTfrecord.index(store, store.stat("f").value(), {});
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->sample_count, 5u);
  EXPECT_LT(store.bytes_read(), 300'000u);
}

}  // namespace
}  // namespace forebay::formats
