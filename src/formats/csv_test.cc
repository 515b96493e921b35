// Goal: every field of a CSV file becomes the number that is written there, whatever its layout and
// wherever pieces end; what is not a table of numbers is refused with line and column.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cstring>
#include <limits>
#include <string>

#include "base/random.h"
#include "formats/builtin.h"
#include "formats/csv_parser.h"
#include "formats/testing_store.h"

namespace forebay::formats {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

struct Table {
  std::string error;
  ElementType type = ElementType::kU8;
  uint64_t rows = 0, columns = 0;
  std::vector<double> values;
};

double value_at(ElementType type, const std::byte* at) {
  if (type == ElementType::kF64) {
    double value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  int64_t value;
  std::memcpy(&value, at, sizeof value);
  return type == ElementType::kI64 ? static_cast<double>(value)
                                   : static_cast<double>(static_cast<uint64_t>(value));
}

std::vector<double> values_of(ElementType type, std::span<const std::byte> bytes) {
  std::vector<double> values;
  for (size_t i = 0; i < bytes.size(); i += 8) values.push_back(value_at(type, &bytes[i]));
  return values;
}

Table parse(std::string_view text, size_t piece = SIZE_MAX) {
  CsvParser parser(true);
  parser.begin();
  for (size_t at = 0; at < text.size(); at += std::min(piece, text.size() - at)) {
    const Status status = parser.append(bytes_of(text.substr(at, piece)));
    if (!status.ok()) return {.error = status.error().message, .values = {}};
  }
  const Status status = parser.finish();
  if (!status.ok()) return {.error = status.error().message, .values = {}};
  return {.error = "",
          .type = parser.type(),
          .rows = parser.rows(),
          .columns = parser.layout().columns,
          .values = values_of(parser.type(), parser.values())};
}

using Values = std::vector<double>;

TEST(Csv, AByteOrderMarkIsNoPartOfTheFirstSample) {
  for (const std::string text : {"1,2\n3,4\n", "a,b\n1,2\n3,4\n", ",0,1\n0,1,2\n1,3,4\n"}) {
    TestingStore store;
    const std::string with_mark = "\xef\xbb\xbf" + text;
    const auto marked = bytes_of(with_mark);
    const TestingStore::Bytes file(marked.begin(), marked.end());
    store.put("f.csv", file);
    const auto index = kCsv.index(store, store.stat("f.csv").value(), {.samples_per_file = 2});
    ASSERT_TRUE(index.ok()) << index.error().message;
    ASSERT_EQ(index->sample_count, 2u);
    const auto reader = kCsv.make_reader({});
    for (uint64_t i = 0; i < 2; ++i) {
      const Extent extent = index->extents[i];
      const auto record =
          reader->read("f.csv", std::span(file).subspan(extent.offset, extent.length), *index, i);
      ASSERT_TRUE(record.ok()) << text << ": " << record.error().message;
      const auto first = static_cast<double>(2 * i + 1);
      EXPECT_EQ(values_of(record->array.type, record->bytes),
                (std::vector<double>{first, first + 1}));
    }
  }
}

TEST(Csv, LayoutsOfAllWritersGiveTheSameValues) {
  const Values wanted{7, 8, 9, 10, 11, 12};
  for (const char* text : {"7,8,9\n10,11,12\n",              // DLIO, numpy
                           ",0,1,2\n0,7,8,9\n1,10,11,12\n",  // pandas with row numbers
                           "a,b,c\n7,8,9\n10,11,12\n",       // a header
                           "7,8,9\r\n10,11,12\r\n",          // Python's csv module
                           ",0,1,2\r\n0,7,8,9\r\n1,10,11,12\r\n",
                           "\xef\xbb\xbf"
                           "7,8,9\n10,11,12\n",  // a byte order mark
                           " 7 ,+8,9\n10,\t11,12 \n\n\n"}) {
    for (const size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{9}, SIZE_MAX}) {
      const Table table = parse(text, piece);
      EXPECT_EQ(table.error, "") << text;
      EXPECT_EQ(table.type, ElementType::kI64);
      EXPECT_EQ(table.rows, 2u);
      EXPECT_EQ(table.columns, 3u);
      EXPECT_EQ(table.values, wanted) << text << " in pieces of " << piece;
    }
  }
}

TEST(Csv, TypesAreTheNarrowestThatHoldAllValues) {
  EXPECT_EQ(parse("-1,2\n").type, ElementType::kI64);
  EXPECT_EQ(parse("1,18446744073709551615\n").type, ElementType::kU64);
  EXPECT_EQ(parse("1,18446744073709551615\n").values.back(), 18446744073709551615.0);
  EXPECT_EQ(parse("-1,18446744073709551615\n").type, ElementType::kF64);
  EXPECT_EQ(parse("18446744073709551615,-1\n").values, (Values{18446744073709551615.0, -1}));
  EXPECT_EQ(parse("1,99999999999999999999999\n").values, (Values{1, 1e23}));
  EXPECT_EQ(parse("1,2.5,3\n4,-5e3,6\n").values, (Values{1, 2.5, 3, 4, -5000, 6}));
  EXPECT_EQ(parse("-9223372036854775808,9223372036854775807\n").type, ElementType::kI64);
  EXPECT_EQ(parse("True,False\n").values, (Values{1, 0}));
  const Table odd = parse("inf,-inf,nan,1e-3\n");
  EXPECT_EQ(odd.error, "");
  EXPECT_EQ(odd.values[1], -std::numeric_limits<double>::infinity());
  EXPECT_NE(odd.values[2], odd.values[2]);
}

// Against the standard library, for every number of digits and any cut.
TEST(Csv, RandomNumbersOfAnyLengthAreRead) {
  base::Random random(11);
  std::string text;
  Values wanted;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t value = random.next() >> (random.next() % 64);
    wanted.push_back(static_cast<double>(value));
    text += std::to_string(value) + (i % 100 == 99 ? '\n' : ',');
  }
  for (const size_t piece : {size_t{7}, size_t{8}, size_t{9}, size_t{100}, SIZE_MAX}) {
    const Table table = parse(text, piece);
    EXPECT_EQ(table.error, "");
    EXPECT_EQ(table.rows, 200u);
    EXPECT_EQ(table.values, wanted);
  }
}

TEST(Csv, RefusalsNameLineAndColumn) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"", "empty file"},
      {"\n\n", "no line of numbers"},
      {"a,b\n", "no line of numbers"},
      {",0,1\n", "no line of numbers"},
      {"1,2\n3\n", "line 2: 1 values, the lines before have 2"},
      {"1,2\n3,4,5\n", "line 2: 3 values, the lines before have 2"},
      {"1,2\n3,x4\n", "line 2, column 2: not a number: 'x4'"},
      {"1,2\n3,\"4\"\n", "line 2, column 2: not a number: '\"4\"'"},
      {"1,,3\n", "line 1, column 2: empty field"},
      {"1,2,\n", "line 1, column 3: empty field"},
      {"1,2\n,4\n", "line 2, column 1: empty field"},
      {"1,2\n\n3,4\n", "a blank line precedes line 3"},
      {"\n1,2\n", "a blank line precedes line 2"},
      {"1,2\n3,4", "truncated at byte 7: line 2 has no end"},
      {"1,2\n3,", "truncated at byte 6: line 2 has no end"},
      {"a,b", "truncated at byte 3: line 1 has no end"},
      {"1e999\n", "line 1, column 1: a number that no 64-bit type holds: '1e999'"},
      {"1,0x10\n", "line 1, column 2: not a number: '0x10'"},
      {"1,2 3\n", "line 1, column 2: not a number: '2 3'"},
      {"1;2\n3;4\n", "line 2, column 1: not a number: '3;4'"},
      {",0\n0\n", "line 2: no value beside its row number"},
      {",0\nx,1\n", "line 2, column 1: not a number: 'x'"},
      {"version https://git-lfs.github.com/spec/v1\n1\n",
       "a git-lfs pointer, not the data; fetch it with 'git lfs pull'"},
  };
  for (const auto& c : cases)
    for (const size_t piece : {size_t{1}, size_t{3}, SIZE_MAX})
      EXPECT_EQ(parse(c.text, piece).error, c.error) << c.text << " in pieces of " << piece;
  const std::string endless(1000, '1');
  EXPECT_EQ(parse("1," + endless + ",2\n").error,
            "line 1, column 2: a field of more than 512 characters");
  EXPECT_EQ(parse(endless).error, "line 1, column 1: a field of more than 512 characters");
}

struct Loaded {
  std::string error;
  std::vector<Values> samples;
  std::vector<std::vector<uint64_t>> shapes;
  Access access = Access::kWholeFile;
};

Loaded load(std::string_view content, uint64_t samples_per_file) {
  TestingStore store;
  const auto bytes = bytes_of(content);
  store.put("a.csv", {bytes.begin(), bytes.end()});
  const FormatOptions options{.samples_per_file = samples_per_file};
  const auto index = kCsv.index(store, store.stat("a.csv").value(), options);
  if (!index.ok()) return {.error = index.error().message, .samples = {}, .shapes = {}};
  Loaded loaded{.error = "", .samples = {}, .shapes = {}, .access = index->access};
  auto reader = kCsv.make_reader(options);
  for (uint64_t i = 0; i < index->sample_count; ++i) {
    auto part = bytes;
    if (index->access == Access::kExtents)
      part = bytes.subspan(index->extents[i].offset, index->extents[i].length);
    const auto record = reader->read("a.csv", part, *index, i);
    if (!record.ok()) return {.error = record.error().message, .samples = {}, .shapes = {}};
    loaded.samples.push_back(values_of(record->array.type, record->bytes));
    loaded.shapes.push_back(record->array.shape);
  }
  return loaded;
}

TEST(Csv, SamplesAreLinesAndExtents) {
  for (const char* text : {"1,2\n3,4\n5,6\n", ",0,1\n0,1,2\n1,3,4\n2,5,6\n", "a,b\n1,2\n3,4\n5,6\n",
                           "1,2\r\n3,4\r\n5,6\r\n\r\n"}) {
    for (const uint64_t expected : {0u, 3u, 5u}) {  // what the workload says is checked elsewhere
      const Loaded loaded = load(text, expected);
      EXPECT_EQ(loaded.error, "") << text;
      EXPECT_EQ(loaded.access, Access::kExtents);
      EXPECT_EQ(loaded.samples, (std::vector<Values>{{1, 2}, {3, 4}, {5, 6}})) << text;
      EXPECT_EQ(loaded.shapes[2], (std::vector<uint64_t>{2}));
    }
  }
}

TEST(Csv, FileOfOneSampleIsTheWholeTable) {
  const Loaded table = load("1,2,3\n4,5,6\n", 1);
  EXPECT_EQ(table.access, Access::kWholeFile);
  EXPECT_EQ(table.samples[0], (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(table.shapes[0], (std::vector<uint64_t>{2, 3}));
  for (const uint64_t samples : {0u, 1u}) {
    const Loaded line = load(",0,1,2\n0,4,5,6\n", samples);
    EXPECT_EQ(line.access, Access::kWholeFile);
    EXPECT_EQ(line.shapes[0], (std::vector<uint64_t>{3}));
  }
}

std::string error_of_packed(std::span<const std::byte> bytes) {
  const auto reader = kCsv.make_reader({});
  const auto record = reader->read("f", bytes, FileIndex{}, 0);
  return record.ok() ? std::string() : record.error().message;
}

TEST(Csv, DamageOfACompressedFileIsCalledDamage) {
  TestingStore store;
  for (const Compression compression : {Compression::kXz, Compression::kBz2, Compression::kGzip}) {
    const FileSpec spec{.path = "f", .rows = 40, .columns = 40, .compression = compression};
    auto writer = store.create("f").take();
    ASSERT_TRUE(kCsv.write(*writer, true, spec).ok());
    ASSERT_TRUE(writer->publish().ok());
    TestingStore::Bytes bytes(store.stat("f").value().size);
    ASSERT_TRUE(store.read_at("f", 0, bytes).ok());
    EXPECT_EQ(error_of_packed(bytes), "");
    for (size_t at = bytes.size() / 4; at < bytes.size() * 3 / 4; at += bytes.size() / 16) {
      TestingStore::Bytes flipped = bytes;
      flipped[at] ^= std::byte{0x10};
      EXPECT_THAT(error_of_packed(flipped), testing::HasSubstr("stream")) << at;
    }
  }
}

TEST(Csv, WhatFollowsAGzipStreamIsNoTruncation) {
  TestingStore store;
  const FileSpec spec{.path = "f", .rows = 4, .columns = 4, .compression = Compression::kGzip};
  auto writer = store.create("f").take();
  ASSERT_TRUE(kCsv.write(*writer, true, spec).ok());
  ASSERT_TRUE(writer->publish().ok());
  TestingStore::Bytes bytes(store.stat("f").value().size);
  ASSERT_TRUE(store.read_at("f", 0, bytes).ok());
  for (const size_t junk : {1u, 3u, 20u, 5000u}) {
    TestingStore::Bytes longer = bytes;
    longer.resize(bytes.size() + junk, std::byte{'x'});
    EXPECT_EQ(error_of_packed(longer), "f: something else follows its gzip stream") << junk;
  }
}

TEST(Csv, BadLineFailsAloneAndIsNumberedFromTheTopOfTheFile) {
  TestingStore store;
  const std::string text = ",0,1\n0,1,2\n1,3\n2,5,x\n3,7,8";
  const auto bytes = bytes_of(text);
  store.put("a.csv", {bytes.begin(), bytes.end()});
  const auto index = kCsv.index(store, store.stat("a.csv").value(), {.samples_per_file = 4});
  ASSERT_TRUE(index.ok());
  ASSERT_EQ(index->sample_count, 4u);
  auto reader = kCsv.make_reader({});
  const auto read = [&](uint64_t i) {
    const Extent extent = index->extents[i];
    const auto record =
        reader->read("a.csv", bytes.subspan(extent.offset, extent.length), *index, i);
    return record.ok() ? std::string() : record.error().message;
  };
  EXPECT_EQ(read(0), "");
  EXPECT_EQ(read(1), "a.csv: line 3: 1 values, the lines before have 2");
  EXPECT_EQ(read(2), "a.csv: line 4, column 3: not a number: 'x'");
  EXPECT_EQ(read(3), "a.csv: truncated at byte 26: line 5 has no end");
  EXPECT_EQ(load("1,2\n\n3,4\n", 2).error, "a.csv: a blank line precedes line 3");
}

// Lines beyond the window that the index reads through.
TEST(Csv, LongLinesAreFound) {
  std::string line;
  while (line.size() < 3'000'000) line += "123,";
  line.back() = '\n';
  const Loaded loaded = load(line + line, 2);
  ASSERT_EQ(loaded.error, "");
  EXPECT_EQ(loaded.samples[1].size(), 750'000u);
}

TEST(Csv, CompressedFilesAreReadTogether) {
  for (const Compression compression : kCsv.compressions) {
    if (compression == Compression::kNone) continue;
    TestingStore store;
    FileSpec spec{.path = "train/img_0_of_1.csv", .rows = 31, .columns = 17, .sample_count = 3};
    ASSERT_TRUE(write_with(kCsv, store, "plain", spec).ok());
    const auto& plain = store.get("plain");
    const Loaded wanted = load({reinterpret_cast<const char*>(plain.data()), plain.size()}, 3);
    spec.compression = compression;
    spec.path += kCsv.name_suffix(compression);
    ASSERT_TRUE(write_with(kCsv, store, "packed", spec).ok());
    const auto& packed = store.get("packed");
    const std::string_view text(reinterpret_cast<const char*>(packed.data()), packed.size());
    for (const uint64_t samples : {0u, 3u}) {
      const Loaded loaded = load(text, samples);
      EXPECT_EQ(loaded.error, "");
      EXPECT_EQ(loaded.access, Access::kTogether);
      EXPECT_EQ(loaded.samples, wanted.samples) << compression_name(compression);
    }
    EXPECT_EQ(load(text, 2).error,
              "a.csv: 2 samples per file were asked for, but it has 3 lines of numbers");
    // Cut anywhere, it is never taken for whole.
    for (size_t n = 1; n < text.size(); n += n < 40 || n + 40 > text.size() ? 1 : 97)
      for (const uint64_t samples : {0u, 1u, 3u})
        EXPECT_NE(load(text.substr(0, n), samples).error, "") << n << " of " << text.size();
  }
}

TEST(Csv, DialectsDifferInHeaderAndRowNumbers) {
  TestingStore store;
  FileSpec spec{.path = "a.csv", .rows = 2, .columns = 2, .sample_count = 2, .seed = 4};
  const auto text = [&](Dialect dialect) {
    spec.dialect = dialect;
    EXPECT_TRUE(write_with(kCsv, store, "a.csv", spec).ok());
    const auto& bytes = store.get("a.csv");
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const std::string main = text(Dialect::kDlioMain);
  EXPECT_EQ(text(Dialect::kMlpsV3), main);
  const size_t line_end = main.find('\n');
  EXPECT_EQ(text(Dialect::kMlpsV2),
            ",0,1,2,3\n0," + main.substr(0, line_end) + "\n1," + main.substr(line_end + 1));
}

TEST(Csv, EveryElementTypeIsWrittenAndReadBack) {
  for (int i = 0; i < 14; ++i) {
    const auto type = static_cast<ElementType>(i);
    TestingStore store;
    const FileSpec spec{
        .path = "a.csv", .rows = 32, .columns = 30, .type = type, .sample_count = 2, .seed = 9};
    const Status status = write_with(kCsv, store, "a.csv", spec);
    if (type == ElementType::kC64 || type == ElementType::kC128) {
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
      continue;
    }
    ASSERT_TRUE(status.ok()) << element_name(type);
    ASSERT_TRUE(write_with(kRaw, store, "a.raw", spec).ok());
    const auto& raw = store.get("a.raw");
    const auto& text = store.get("a.csv");
    EXPECT_LE(text.size(), kCsv.estimate_bytes(spec));
    const Loaded loaded = load({reinterpret_cast<const char*>(text.data()), text.size()}, 2);
    ASSERT_EQ(loaded.error, "") << element_name(type);
    ASSERT_EQ(loaded.samples[1].size(), 960u);
    if (type != ElementType::kF64 && type != ElementType::kU8) continue;
    for (size_t k = 0; k < 960; ++k) {
      const std::byte* at = &raw[(960 + k) * element_bytes(type)];
      const double wanted =
          type == ElementType::kU8 ? static_cast<double>(*at) : value_at(type, at);
      EXPECT_EQ(loaded.samples[1][k], wanted);
    }
  }
}

}  // namespace
}  // namespace forebay::formats
