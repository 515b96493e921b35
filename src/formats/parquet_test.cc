// Goal: what the format `parquet` writes it reads back, by columns and row groups; what is damaged,
// hostile or missing is named and costs no memory. Against pyarrow: tests/parquet.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "formats/builtin.h"
#include "formats/parquet_layout.h"
#include "formats/payload.h"
#include "formats/testing_store.h"

namespace forebay::formats {
namespace {

using Bytes = TestingStore::Bytes;

Bytes block_bytes(const Bytes& file, const Block& block) {
  Bytes joined;
  for (const Extent& extent : block.extents)
    joined.insert(joined.end(), file.begin() + static_cast<ptrdiff_t>(extent.offset),
                  file.begin() + static_cast<ptrdiff_t>(extent.offset + extent.length));
  return joined;
}

class Parquet : public testing::Test {
 protected:
  void SetUp() override {
    const auto index = kParquet.index(store_, {"a", 0, 0}, {});
    if (!index.ok() && index.error().code == ErrorCode::kUnsupported)
      GTEST_SKIP() << index.error().message;
    reader_ = kParquet.make_reader({});
  }
  const Bytes& write(const FileSpec& spec) {
    const Status status = write_with(kParquet, store_, spec.path, spec);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return store_.get(spec.path);
  }
  Result<FileIndex> index(const std::string& path, const FormatOptions& options = {}) {
    const auto info = store_.stat(path);
    return kParquet.index(store_, *info, options);
  }
  // The first error of index and decode, or ok when every row is there.
  Status read_all(const std::string& path) {
    const FileIndex found = FB_TRY(index(path));
    for (const Block& block : found.blocks) {
      const Bytes bytes = block_bytes(store_.get(path), block);
      const auto decoded = FB_TRY(reader_->decode_block(path, bytes, found, block));
      for (uint64_t i = 0; i < block.sample_count; ++i) FB_TRY(decoded->at(i));
    }
    return {};
  }

  TestingStore store_;
  std::unique_ptr<Reader> reader_;
};

FileSpec table(std::vector<Column> columns, uint64_t rows = 50, uint64_t group_rows = 20) {
  return {.path = "t.parquet",
          .sample_count = rows,
          .seed = 3,
          .table = std::move(columns),
          .row_group_rows = group_rows};
}

// The values that Payload gives to column `number`.
Bytes payload_of(const FileSpec& spec, size_t number) {
  const Column& column = spec.table[number];
  Payload payload({.path = "p",
                   .rows = 1,
                   .columns = column.values,
                   .type = column.type,
                   .seed = base::derive_seed(spec.seed, number)});
  Bytes all;
  const auto keep = [&](std::span<const std::byte> piece) {
    all.insert(all.end(), piece.begin(), piece.end());
    return Status();
  };
  for (uint64_t row = 0; row < spec.sample_count; row += spec.row_group_rows) {
    const uint64_t rows = std::min(spec.row_group_rows, spec.sample_count - row);
    EXPECT_TRUE(payload.produce(rows * column.values * element_bytes(column.type), keep).ok());
  }
  return all;
}

TEST_F(Parquet, EveryTypeComesBackInRowsOfItsColumns) {
  FileSpec spec = table({});
  for (int i = 0; i <= static_cast<int>(ElementType::kBool); ++i) {
    const auto type = static_cast<ElementType>(i);
    spec.table.push_back({std::string(element_name(type)), type, 1});
    spec.table.push_back({std::string(element_name(type)) + "_list", type, 2000});
  }
  for (const Compression compression : kParquet.compressions) {
    spec.compression = compression;
    const Bytes& file = write(spec);
    const auto found = index(spec.path);
    ASSERT_TRUE(found.ok()) << found.error().message;
    ASSERT_EQ(found->access, Access::kBlocks);
    ASSERT_EQ(found->blocks.size(), 3u);
    std::vector<Bytes> columns;
    for (size_t i = 0; i < spec.table.size(); ++i) columns.push_back(payload_of(spec, i));
    uint64_t row = 0;
    for (const Block& block : found->blocks) {
      EXPECT_EQ(block.first_sample, row);
      EXPECT_EQ(block.extents.size(), 1u);  // all columns: neighbours are one extent
      const auto decoded =
          reader_->decode_block(spec.path, block_bytes(file, block), *found, block);
      ASSERT_TRUE(decoded.ok()) << decoded.error().message;
      for (uint64_t i = 0; i < block.sample_count; ++i, ++row) {
        Bytes expected;
        for (size_t c = 0; c < columns.size(); ++c) {
          const size_t n = spec.table[c].values * element_bytes(spec.table[c].type);
          const auto from = columns[c].begin() + static_cast<ptrdiff_t>(row * n);
          expected.insert(expected.end(), from, from + static_cast<ptrdiff_t>(n));
        }
        const auto record = decoded.value()->at(i);
        ASSERT_TRUE(record.ok());
        EXPECT_EQ(record->encoding, Encoding::kRaw);
        ASSERT_TRUE(std::ranges::equal(record->bytes, expected)) << "row " << row;
      }
      EXPECT_FALSE(decoded.value()->at(block.sample_count).ok());
    }
    EXPECT_EQ(row, 50u);
  }
}

TEST_F(Parquet, ColumnsOfOneTypeAreAnArray) {
  const FileSpec spec = table(
      {{"a", ElementType::kF32, 7}, {"b", ElementType::kF32, 1}, {"c", ElementType::kI32, 3}});
  const Bytes& file = write(spec);
  const auto found = index(spec.path, {.columns = {"b", "a"}});
  ASSERT_TRUE(found.ok());
  const Block& block = found->blocks[1];
  const auto decoded = reader_->decode_block(spec.path, block_bytes(file, block), *found, block);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  const auto record = decoded.value()->at(19);
  EXPECT_EQ(record->encoding, Encoding::kArray);
  EXPECT_EQ(record->array.type, ElementType::kF32);
  EXPECT_EQ(record->array.shape, std::vector<uint64_t>{8});
  EXPECT_EQ(record->bytes.size(), 32u);
  EXPECT_EQ(decoded.value()->bytes(), 20u * 32);
  // In the order of the file, whatever the order of the names.
  EXPECT_EQ(std::memcmp(record->bytes.data(), payload_of(spec, 0).data() + 39 * 28, 28), 0);
}

TEST_F(Parquet, ProjectionReadsOnlyItsChunks) {
  std::vector<Column> columns;
  for (int i = 0; i < 8; ++i) columns.push_back({fmt::format("c{}", i), ElementType::kF64, 1});
  const FileSpec spec = table(columns, 1000, 500);
  write(spec);
  const auto found = index(spec.path, {.columns = {"c1", "c2", "c5"}});
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->blocks[0].extents.size(), 2u);
  uint64_t bytes = 0;
  for (const Extent& extent : found->blocks[0].extents) bytes += extent.length;
  EXPECT_GE(bytes, 3u * 500 * 8);
  EXPECT_LT(bytes, 3u * 500 * 8 + 300);
}

TEST_F(Parquet, IndexReadsTheFooterAlone) {
  const FileSpec spec = table({{"a", ElementType::kF32, 100000}});
  write(spec);
  const uint64_t before = store_.bytes_read();
  ASSERT_TRUE(index(spec.path).ok());
  EXPECT_LE(store_.bytes_read() - before, 64u << 10);
}

TEST_F(Parquet, DetailIsSmall) {
  std::vector<Column> columns;
  for (int i = 0; i < 200; ++i) columns.push_back({fmt::format("c{}", i), ElementType::kF32, 1});
  const FileSpec spec = table(columns, 6000, 100);
  write(spec);
  const auto found = index(spec.path);
  ASSERT_EQ(found->blocks.size(), 60u);
  // A byte for each chunk of the 60 groups, as the checksums of their pages differ in length.
  EXPECT_LT(found->detail.size(), 200u * 60 + 200u * 20);
}

TEST_F(Parquet, UnknownColumnsAreNamedWithTheNearest) {
  const FileSpec spec = table({{"label", ElementType::kF32, 1}, {"image", ElementType::kU8, 5}});
  write(spec);
  const auto found = index(spec.path, {.columns = {"lable"}});
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(found.error().message,
            "t.parquet: no column named 'lable'; did you mean 'label'? (known: image, label)");
}

TEST_F(Parquet, EstimateIsAnUpperBoundNotFarOff) {
  for (const ElementType type : {ElementType::kU8, ElementType::kI16, ElementType::kF32}) {
    for (const uint64_t values : {1u, 300u}) {
      const FileSpec spec = table({{"a", type, values}, {"b", type, values}}, 3000, 1000);
      const uint64_t size = write(spec).size();
      EXPECT_GE(kParquet.estimate_bytes(spec), size);
      EXPECT_LE(kParquet.estimate_bytes(spec), size + size / 2 + 8192);
    }
  }
}

TEST_F(Parquet, WrongTablesAreRefused) {
  const auto refused = [&](const FileSpec& spec) {
    const Status status = write_with(kParquet, store_, spec.path, spec);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(refused(table({{"", ElementType::kU8, 1}})), "t.parquet: column '': it has no name");
  EXPECT_EQ(refused(table({{"a", ElementType::kU8, 1}, {"a", ElementType::kU8, 1}})),
            "t.parquet: column 'a': it is there twice");
  EXPECT_EQ(refused(table({{"a", ElementType::kU8, 0}})),
            "t.parquet: column 'a': 0 values per row");
  EXPECT_EQ(refused(table({{"a", ElementType::kC64, 1}})),
            "t.parquet: column 'a': parquet has no complex64");
  FileSpec spec = table({{"a", ElementType::kU8, 1}});
  spec.compression = Compression::kXz;
  EXPECT_EQ(refused(spec), "t.parquet: parquet is not compressed with xz here");
}

TEST_F(Parquet, EveryTruncationIsNamed) {
  const FileSpec spec = table({{"a", ElementType::kF32, 3}, {"b", ElementType::kU8, 1}});
  const Bytes whole = write(spec);
  for (size_t n = 0; n < whole.size(); n += 7) {
    store_.put("cut", Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n)));
    const Status status = read_all("cut");
    ASSERT_FALSE(status.ok()) << n;
    EXPECT_EQ(status.error().message.substr(0, 5), "cut: ") << status.error().message;
  }
}

// Checksums cover the pages; what is left to chance is the footer and the headers.
TEST_F(Parquet, FlippedBitsAreErrorsOrChangeNoValue) {
  const FileSpec spec = table({{"a", ElementType::kF32, 3}, {"b", ElementType::kU8, 1}}, 6, 3);
  const Bytes whole = write(spec);
  int errors = 0;
  for (size_t i = 0; i < whole.size() * 8; ++i) {
    Bytes bytes = whole;
    bytes[i / 8] ^= static_cast<std::byte>(1u << (i % 8));
    store_.put("flip", std::move(bytes));
    const Status status = read_all("flip");
    if (status.ok()) continue;
    ++errors;
    EXPECT_EQ(status.error().message.substr(0, 6), "flip: ") << status.error().message;
  }
  EXPECT_GT(errors, static_cast<int>(whole.size()));
}

TEST_F(Parquet, DamagedPageIsNamedWithRowGroupAndColumn) {
  const FileSpec spec = table({{"a", ElementType::kF32, 100}});
  Bytes file = write(spec);
  const auto found = index(spec.path);
  const Block& block = found->blocks[1];
  file[block.extents[0].offset + block.extents[0].length - 1] ^= std::byte{1};
  const auto decoded = reader_->decode_block(spec.path, block_bytes(file, block), *found, block);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code, ErrorCode::kCorruption);
  EXPECT_NE(decoded.error().message.find("t.parquet: row group 1: column a.list.element: "),
            std::string::npos)
      << decoded.error().message;
  EXPECT_NE(decoded.error().message.find("CRC"), std::string::npos);
}

TEST_F(Parquet, BytesThatAreNotTheBlockAreRefused) {
  const FileSpec spec = table({{"a", ElementType::kF32, 1}});
  const Bytes& file = write(spec);
  const auto found = index(spec.path);
  const Bytes bytes = block_bytes(file, found->blocks[0]);
  const auto decode = [&](std::span<const std::byte> part, const Block& block) {
    const auto decoded = reader_->decode_block(spec.path, part, *found, block);
    return decoded.ok() ? "" : decoded.error().message;
  };
  EXPECT_EQ(decode(std::span(bytes).first(bytes.size() - 1), found->blocks[0]),
            fmt::format("t.parquet: row group 0: {} bytes where it has {}", bytes.size() - 1,
                        bytes.size()));
  EXPECT_EQ(decode(bytes, {.first_sample = 1, .sample_count = 20}),
            "t.parquet: no row group has the rows 1 to 21");
  FileIndex damaged = *found;
  damaged.detail.pop_back();
  const auto decoded = reader_->decode_block(spec.path, bytes, damaged, found->blocks[0]);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().message, "t.parquet: the description of the parquet file is damaged");
}

TEST(ParquetLayoutText, RoundTripSharesEqualGroups) {
  ParquetLayout layout{.is_always_compressed = true};
  layout.columns = {{"a.b", PhysicalType::kInt32, 0, 2, ElementType::kI16, 3, 1},
                    {"c", PhysicalType::kByteArray, 0, 0, std::nullopt, 1, 0}};
  for (uint64_t i = 0; i < 5; ++i) {
    layout.groups.push_back({i, i * 10, 10, i});
    for (uint64_t c = 0; c < 2; ++c)
      layout.chunks.push_back({.bytes = i < 3 ? 100 : UINT64_MAX, .level_count = 10, .codec = 2});
  }
  const std::string text = write_layout(layout);
  const auto parsed = parse_layout(text);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->chunks.size(), 4u);
  EXPECT_TRUE(write_layout(*parsed) == text);
  EXPECT_EQ(parsed->groups[4].first_sample, 40u);
  EXPECT_EQ(parsed->chunks_of(4)[1].bytes, UINT64_MAX);
  EXPECT_EQ(parsed->columns[0].element, ElementType::kI16);
  EXPECT_TRUE(parsed->is_always_compressed);
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(parse_layout(text.substr(0, n)).ok()) << n;
}

TEST(ParquetLayoutText, AnyBytesAreReadOrRefused) {
  ParquetLayout layout;
  layout.columns = {{"a", PhysicalType::kInt64, 0, 8, std::nullopt, 1, 0}};
  layout.groups = {{0, 0, 7, 0}, {1, 7, 7, 1}};
  layout.chunks = {{1, 7, 0}, {2, 7, 0}};
  const std::string good = write_layout(layout);
  base::Random random(11);
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int flips = 0; flips < 3; ++flips)
      text[random.below(text.size())] = static_cast<char>(random.next());
    const auto parsed = parse_layout(text);
    if (!parsed.ok()) continue;
    EXPECT_LE(parsed->groups.size(), text.size());
    EXPECT_LE(parsed->chunks.size(), text.size());
  }
}

}  // namespace
}  // namespace forebay::formats
