// The footer of a parquet file -> where its row groups lie.
#include <arrow/util/compression.h>
#include <arrow/util/config.h>
#include <parquet/exception.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "formats/content_kind.h"
#include "formats/little_endian.h"
#include "formats/parquet_parts.h"

namespace forebay::formats {
namespace {

constexpr uint64_t kTailBytes = 64u << 10;  // holds the footer of most files: one read
constexpr uint64_t kFooterEndBytes = 8;     // its length and "PAR1"
constexpr uint64_t kHeadBytes = 512;
constexpr uint64_t kRowsMax = INT32_MAX;  // of one row group
// Old writers of Java left the header of the dictionary page out of the chunk's length.
constexpr uint64_t kForgottenHeaderBytes = 100;

Result<std::string> read_part(storage::Store& store, const storage::FileInfo& file, uint64_t offset,
                              uint64_t bytes) {
  std::string part(bytes, '\0');
  const size_t n =
      FB_TRY(store.read_at(file.path, offset, std::as_writable_bytes(std::span(part))));
  if (n != bytes)
    return fail(ErrorCode::kCorruption, "{}: truncated at byte {} of {}", file.path, offset + n,
                file.size);
  return part;
}

// The footer without the eight bytes that end it.
Result<std::string> read_footer(storage::Store& store, const storage::FileInfo& file) {
  if (file.size < kFooterEndBytes + 4)
    return fail(ErrorCode::kCorruption, "{}: {} bytes are too few for a parquet file", file.path,
                file.size);
  const uint64_t tail_bytes = std::min(file.size, kTailBytes);
  std::string tail = FB_TRY(read_part(store, file, file.size - tail_bytes, tail_bytes));
  const std::string_view magic = std::string_view(tail).substr(tail.size() - 4);
  if (magic == "PARE")
    return fail(ErrorCode::kUnsupported, "{}: its footer is encrypted", file.path);
  if (magic != "PAR1") {
    const std::string head = FB_TRY(read_part(store, file, 0, std::min(file.size, kHeadBytes)));
    const auto bytes = std::as_bytes(std::span(head));
    FB_TRY(refuse_lfs_pointer(bytes).context(file.path));
    return fail(ErrorCode::kCorruption,
                "{}: no parquet file, or cut short: its last four bytes are not PAR1", file.path);
  }
  const auto end = std::as_bytes(std::span(tail)).last(kFooterEndBytes);
  const uint64_t footer_bytes = load_le<uint32_t>(end.data());
  if (footer_bytes > file.size - kFooterEndBytes - 4)
    return fail(ErrorCode::kCorruption, "{}: a footer of {} bytes in a file of {}", file.path,
                footer_bytes, file.size);
  const uint64_t held = tail_bytes - kFooterEndBytes;
  if (footer_bytes <= held) return tail.substr(held - footer_bytes, footer_bytes);
  std::string footer = FB_TRY(
      read_part(store, file, file.size - kFooterEndBytes - footer_bytes, footer_bytes - held));
  footer.append(tail, 0, held);
  return footer;
}

std::shared_ptr<parquet::FileMetaData> parse_footer(const std::string& footer) {
  parquet::ReaderProperties properties;
  // An element takes a byte at least, so no list may claim more of them.
  properties.set_thrift_container_size_limit(
      static_cast<int32_t>(std::min<size_t>(footer.size() + 1, 1'000'000)));
#if ARROW_VERSION_MAJOR >= 26
  return parquet::FileMetaData::Make(footer.data(), static_cast<int64_t>(footer.size()),
                                     properties);
#else
  auto bytes = static_cast<uint32_t>(footer.size());
  return parquet::FileMetaData::Make(footer.data(), &bytes, properties);
#endif
}

// The element type of a value and its width in a record.
void set_element(const parquet::ColumnDescriptor& leaf, ParquetColumn& column) {
  const auto& logical = leaf.logical_type();
  const bool is_number = !logical || !logical->is_decimal();
  const auto* integer = logical && logical->is_int()
                            ? static_cast<const parquet::IntLogicalType*>(logical.get())
                            : nullptr;
  const bool is_signed = integer == nullptr || integer->is_signed();
  switch (leaf.physical_type()) {
    case parquet::Type::BOOLEAN:
      column.element = ElementType::kBool;
      break;
    case parquet::Type::FLOAT:
      column.element = ElementType::kF32;
      break;
    case parquet::Type::DOUBLE:
      column.element = ElementType::kF64;
      break;
    case parquet::Type::INT32:
      if (integer != nullptr && integer->bit_width() == 8)
        column.element = is_signed ? ElementType::kI8 : ElementType::kU8;
      else if (integer != nullptr && integer->bit_width() == 16)
        column.element = is_signed ? ElementType::kI16 : ElementType::kU16;
      else if (is_number)
        column.element = is_signed ? ElementType::kI32 : ElementType::kU32;
      column.value_bytes = 4;
      break;
    case parquet::Type::INT64:
      if (is_number) column.element = is_signed ? ElementType::kI64 : ElementType::kU64;
      column.value_bytes = 8;
      break;
    case parquet::Type::INT96:
      column.value_bytes = 12;
      break;
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      column.value_bytes = column.fixed_bytes = static_cast<uint32_t>(leaf.type_length());
      if (logical && logical->is_float16()) column.element = ElementType::kF16;
      break;
    default:
      break;
  }
  if (column.element) column.value_bytes = static_cast<uint32_t>(element_bytes(*column.element));
}

Result<ParquetColumn> describe_column(const std::string& path,
                                      const parquet::ColumnDescriptor& leaf) {
  ParquetColumn column{.name = leaf.path()->ToDotString()};
  const int physical = leaf.physical_type();
  if (physical < 0 || physical > 7)
    return fail(ErrorCode::kUnsupported, "{}: column {}: unknown physical type {}", path,
                column.name, physical);
  column.physical = static_cast<PhysicalType>(physical);
  column.definition_max = leaf.max_definition_level();
  column.repetition_max = leaf.max_repetition_level();
  const auto& logical = leaf.logical_type();
  column.is_json = logical && logical->is_JSON();
  column.is_text = logical && (logical->is_string() || logical->is_enum());
  set_element(leaf, column);
  if (column.physical == PhysicalType::kFixedBytes &&
      (leaf.type_length() <= 0 || leaf.type_length() > (1 << 30)))
    return fail(ErrorCode::kCorruption, "{}: column {}: values of {} bytes", path, column.name,
                leaf.type_length());
  return column;
}

// Leaves below the columns that are asked for (all when none is), in the order of the file.
Result<std::vector<int>> choose_leaves(const std::string& path,
                                       const parquet::SchemaDescriptor& schema,
                                       const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (int i = 0; i < schema.group_node()->field_count(); ++i)
    names.push_back(schema.group_node()->field(i)->name());
  std::vector<bool> is_chosen(static_cast<size_t>(schema.num_columns()), wanted.empty());
  for (const std::string& name : wanted) {
    bool is_known = false;
    for (int i = 0; i < schema.num_columns(); ++i) {
      if (schema.GetColumnRoot(i)->name() != name &&
          schema.Column(i)->path()->ToDotString() != name)
        continue;
      is_chosen[static_cast<size_t>(i)] = is_known = true;
    }
    if (is_known) continue;
    const std::vector<std::string_view> known(names.begin(), names.end());
    return fail(ErrorCode::kInvalidArgument, "{}: {}", path,
                base::unknown_name_message("column", name, known));
  }
  std::vector<int> leaves;
  for (int i = 0; i < schema.num_columns(); ++i)
    if (is_chosen[static_cast<size_t>(i)]) leaves.push_back(i);
  if (leaves.empty()) return fail(ErrorCode::kUnsupported, "{}: a table without columns", path);
  return leaves;
}

// A leaf goes by the name of its column, unless that has several: then by its whole path.
std::string part_of(const parquet::SchemaDescriptor& schema, int leaf) {
  int leaves = 0;
  for (int i = 0; i < schema.num_columns(); ++i)
    if (schema.GetColumnRoot(i) == schema.GetColumnRoot(leaf)) ++leaves;
  return leaves == 1 ? schema.GetColumnRoot(leaf)->name()
                     : schema.Column(leaf)->path()->ToDotString();
}

// One row group: adds its chunks to `layout` and its extents to `block`.
class GroupIndexer {
 public:
  GroupIndexer(const storage::FileInfo& file, const parquet::FileMetaData& metadata)
      : file_(file),
        is_old_java_(metadata.writer_version().VersionLt(
            parquet::ApplicationVersion::PARQUET_816_FIXED_VERSION())) {}

  Status add(const parquet::RowGroupMetaData& group, uint64_t number,
             const std::vector<int>& leaves, ParquetLayout& layout, Block& block) {
    for (const int leaf : leaves) {
      const auto chunk = group.ColumnChunk(leaf);
      const std::string& name = layout.columns[layout.chunks.size() % leaves.size()].name;
      const std::string where =
          fmt::format("{}: row group {}: column {}", file_.path, number, name);
      FB_TRY(check(*chunk, where));
      const Extent extent = FB_TRY(locate(*chunk, where));
      if (chunk->num_values() < static_cast<int64_t>(block.sample_count))
        return fail(ErrorCode::kCorruption, "{}: {} values for {} rows", where, chunk->num_values(),
                    block.sample_count);
      layout.chunks.push_back({.bytes = extent.length,
                               .level_count = static_cast<uint64_t>(chunk->num_values()),
                               .codec = static_cast<uint8_t>(chunk->compression())});
      Extent* last = block.extents.empty() ? nullptr : &block.extents.back();
      if (last != nullptr && last->offset + last->length == extent.offset)
        last->length += extent.length;
      else
        block.extents.push_back(extent);
    }
    return {};
  }

 private:
  static Status check(const parquet::ColumnChunkMetaData& chunk, const std::string& where) {
    if (chunk.crypto_metadata() != nullptr)
      return fail(ErrorCode::kUnsupported, "{}: it is encrypted", where);
    if (!chunk.file_path().empty())
      return fail(ErrorCode::kUnsupported, "{}: its data lie in another file", where);
    if (!chunk.can_decompress())
      return fail(ErrorCode::kUnsupported, "{}: compressed with {}, which Arrow {} here lacks",
                  where, arrow::util::Codec::GetCodecAsString(chunk.compression()),
                  ARROW_VERSION_STRING);
    return {};
  }

  Result<Extent> locate(const parquet::ColumnChunkMetaData& chunk, const std::string& where) {
    const int64_t data = chunk.data_page_offset(), bytes = chunk.total_compressed_size();
    const int64_t dictionary = chunk.has_dictionary_page() ? chunk.dictionary_page_offset() : 0;
    const int64_t start = dictionary > 0 && dictionary < data ? dictionary : data;
    if (start < 4 || bytes <= 0 || static_cast<uint64_t>(start) > file_.size ||
        static_cast<uint64_t>(bytes) > file_.size - static_cast<uint64_t>(start))
      return fail(ErrorCode::kCorruption, "{}: {} bytes at {} in a file of {}", where, bytes, start,
                  file_.size);
    Extent extent{static_cast<uint64_t>(start), static_cast<uint64_t>(bytes)};
    total_bytes_ += extent.length;
    if (total_bytes_ > file_.size)
      return fail(ErrorCode::kCorruption, "{}: the chunks overlap", where);
    if (is_old_java_)
      extent.length += std::min(kForgottenHeaderBytes, file_.size - extent.offset - extent.length);
    return extent;
  }

  const storage::FileInfo& file_;
  bool is_old_java_;
  uint64_t total_bytes_ = 0;
};

Result<FileIndex> index_footer(const storage::FileInfo& file, const parquet::FileMetaData& metadata,
                               const FormatOptions& options) {
  const std::vector<int> leaves =
      FB_TRY(choose_leaves(file.path, *metadata.schema(), options.columns));
  ParquetLayout layout;
  layout.is_always_compressed = metadata.writer_version().VersionLt(
      parquet::ApplicationVersion::PARQUET_CPP_10353_FIXED_VERSION());
  for (const int leaf : leaves) {
    ParquetColumn column = FB_TRY(describe_column(file.path, *metadata.schema()->Column(leaf)));
    column.part = part_of(*metadata.schema(), leaf);
    layout.columns.push_back(std::move(column));
  }
  FileIndex index{.access = Access::kBlocks, .sample_count = 0};
  GroupIndexer indexer(file, metadata);
  for (int i = 0; i < metadata.num_row_groups(); ++i) {
    const auto group = metadata.RowGroup(i);
    const auto number = static_cast<uint64_t>(i);
    const int64_t rows = group->num_rows();
    if (rows < 0 || static_cast<uint64_t>(rows) > kRowsMax)
      return fail(ErrorCode::kCorruption, "{}: row group {}: {} rows", file.path, i, rows);
    if (rows == 0) continue;
    Block block{.first_sample = index.sample_count, .sample_count = static_cast<uint64_t>(rows)};
    FB_TRY(indexer.add(*group, number, leaves, layout, block));
    layout.groups.push_back({.number = number,
                             .first_sample = block.first_sample,
                             .sample_count = block.sample_count,
                             .chunk_row = layout.groups.size()});
    index.sample_count += block.sample_count;
    index.blocks.push_back(std::move(block));
  }
  index.detail = write_layout(layout);
  return index;
}

}  // namespace

Result<FileIndex> index_parquet(storage::Store& store, const storage::FileInfo& file,
                                const FormatOptions& options) {
  const std::string footer = FB_TRY(read_footer(store, file));
  try {
    return index_footer(file, *parse_footer(footer), options);
  } catch (...) {
    return parquet_error(file.path + ": footer");
  }
}

}  // namespace forebay::formats
