// The pages of a row group -> its rows, one after the other.
//
// Values are put straight into their rows when every row has the same size; else columns are
// decoded one by one and joined. Arrow undoes pages and levels; its tables are not made.
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/util/config.h>
#include <parquet/column_reader.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "formats/parquet_parts.h"
#include "formats/parquet_pool.h"
#include "formats/parts.h"
#include "sys/memory.h"

namespace forebay::formats {
namespace {

constexpr uint64_t kBatchLevels = 4096;     // levels and values stay in cache
constexpr uint64_t kPanelBytes = 64;        // of a row: the panel of a row group fits the L2 cache
constexpr uint64_t kTileRows = 64;          // of a panel: its rows fit the L1 cache
constexpr uint64_t kDirectRunBytes = 4096;  // from here on values go to their row without a stop

// Pages are about a megabyte whatever they compress to; more is granted to blocks that are large.
int64_t pool_bytes_max(size_t block_bytes) {
  return static_cast<int64_t>(
      std::min<uint64_t>(std::max<uint64_t>(64u << 20, uint64_t{64} * block_bytes), 1u << 31));
}

// What one row group may decode to. Runs of equal values take next to nothing, so that the bytes at
// hand say little; a small file gets a gigabyte at most all the same.
uint64_t decoded_bytes_max(size_t block_bytes) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  return std::clamp<uint64_t>(64 * block_bytes, kGiB, 4 * kGiB);
}

// What a column is in whole samples, and where its values lie in the rows.
struct RowPart {
  ParquetColumn column;
  uint64_t bytes = 0;            // in each row, where all have one size
  std::vector<uint64_t> ends{};  // else: of its values, up to and with each row
};

// Rows of one block; `ends` is empty when all have the size `row_bytes`.
class Rows : public DecodedBlock {
 public:
  Result<Record> at(uint64_t sample) const override {
    if (sample >= count) return fail(ErrorCode::kInvalidArgument, "no row {} of {}", sample, count);
    const uint64_t begin = ends.empty() ? sample * row_bytes : sample == 0 ? 0 : ends[sample - 1];
    const uint64_t end = ends.empty() ? begin + row_bytes : ends[sample];
    Record record{.encoding = Encoding::kRaw, .bytes = {data.get() + begin, end - begin}};
    if (element) {
      record.encoding = Encoding::kArray;
      record.array.type = *element;
      record.array.shape = {record.bytes.size() / element_bytes(*element)};
    }
    return record;
  }
  Status parts_at(uint64_t sample, std::vector<Part>& out) const override {
    out.clear();
    const Record row = FB_TRY(at(sample));
    uint64_t offset = 0;
    for (const RowPart& part : parts) {
      uint64_t length = part.bytes;
      if (!ends.empty()) length = part.ends[sample] - (sample == 0 ? 0 : part.ends[sample - 1]);
      out.push_back(
          {part.column.part, FB_TRY(record_of(part.column, row.bytes.subspan(offset, length)))});
      offset += length;
    }
    return {};
  }
  uint64_t bytes() const override { return total_bytes; }

  static Result<Record> record_of(const ParquetColumn& column, std::span<const std::byte> bytes) {
    if (column.element) {
      Record record{.encoding = Encoding::kArray, .bytes = bytes};
      record.array.type = *column.element;
      if (column.is_repeated())
        record.array.shape = {bytes.size() / element_bytes(*column.element)};
      return record;
    }
    if (column.is_repeated())
      return fail(ErrorCode::kUnsupported,
                  "column {}: lists of values without an array type; name the parts to read "
                  "without it",
                  column.name);
    if (!column.is_text && !column.is_json) return record_of_content(bytes);
    FB_TRY(check_text(bytes).context("column " + column.name));
    return Record{.encoding = column.is_text ? Encoding::kText : Encoding::kJson, .bytes = bytes};
  }

  // Not initialised: every byte is written by a decoder or the block is dropped.
  void allocate(uint64_t bytes) {
    total_bytes = bytes;
    data = sys::allocate_large(bytes);
  }

  uint64_t count = 0, row_bytes = 0, total_bytes = 0;
  std::vector<uint64_t> ends;
  std::optional<ElementType> element;
  std::vector<RowPart> parts;
  sys::LargeBuffer data;
};

std::shared_ptr<parquet::ColumnDescriptor> descriptor_of(const ParquetColumn& column) {
  const auto repetition = column.is_repeated()        ? parquet::Repetition::REPEATED
                          : column.definition_max > 0 ? parquet::Repetition::OPTIONAL
                                                      : parquet::Repetition::REQUIRED;
  const auto node = parquet::schema::PrimitiveNode::Make(
      column.name, repetition, static_cast<parquet::Type::type>(column.physical),
      parquet::ConvertedType::NONE, static_cast<int>(column.fixed_bytes));
  return std::make_shared<parquet::ColumnDescriptor>(node, column.definition_max,
                                                     column.repetition_max);
}

// One column of the block being decoded.
class Chunk {
 public:
  Chunk(std::span<const std::byte> pages, const ParquetColumn& column, const ParquetChunk& chunk,
        bool is_always_compressed, arrow::MemoryPool* pool)
      : column_(column), level_count_(chunk.level_count), descriptor_(descriptor_of(column)) {
    parquet::ReaderProperties properties(pool);
    properties.set_page_checksum_verification(true);
    const auto buffer = std::make_shared<arrow::Buffer>(
        reinterpret_cast<const uint8_t*>(pages.data()), static_cast<int64_t>(pages.size()));
    const auto codec = static_cast<parquet::Compression::type>(chunk.codec);
    auto stream = std::make_shared<arrow::io::BufferReader>(buffer);
    const auto values = static_cast<int64_t>(chunk.level_count);
#if ARROW_VERSION_MAJOR >= 25
    auto reader = parquet::PageReader::Open(stream, values, codec, properties, *descriptor_,
                                            is_always_compressed);
#else
    auto reader =
        parquet::PageReader::Open(stream, values, codec, properties, is_always_compressed);
#endif
    reader_ = parquet::ColumnReader::Make(descriptor_.get(), std::move(reader), pool);
  }

  const ParquetColumn& column() const {
    return column_;
  }
  uint64_t level_count() const {
    return level_count_;
  }
  template <class Type>
  parquet::TypedColumnReader<Type>& as() {
    return static_cast<parquet::TypedColumnReader<Type>&>(*reader_);
  }

 private:
  const ParquetColumn& column_;
  uint64_t level_count_;
  std::shared_ptr<parquet::ColumnDescriptor> descriptor_;
  std::shared_ptr<parquet::ColumnReader> reader_;
};

// Calls `body` with the parquet type of `column`, as in body(parquet::Int32Type{}).
template <class Body>
auto with_type(const ParquetColumn& column, Body&& body) {
  switch (column.physical) {
    case PhysicalType::kBoolean:
      return body(parquet::BooleanType{});
    case PhysicalType::kInt32:
      return body(parquet::Int32Type{});
    case PhysicalType::kInt64:
      return body(parquet::Int64Type{});
    case PhysicalType::kInt96:
      return body(parquet::Int96Type{});
    case PhysicalType::kFloat:
      return body(parquet::FloatType{});
    case PhysicalType::kDouble:
      return body(parquet::DoubleType{});
    case PhysicalType::kFixedBytes:
      return body(parquet::FLBAType{});
    case PhysicalType::kByteArray:
      break;
  }
  return body(parquet::ByteArrayType{});
}

// Values and levels of one batch.
template <class Type>
struct Batch {
  using Value = typename Type::c_type;

  explicit Batch(const ParquetColumn& column)
      : definitions(column.definition_max > 0 ? kBatchLevels : 0),
        repetitions(column.is_repeated() ? kBatchLevels : 0),
        values(std::make_unique_for_overwrite<Value[]>(kBatchLevels)) {}

  // At most `most` levels; 0 after the last. Values go to `to` when given.
  void read(Chunk& chunk, uint64_t most, Value* to = nullptr) {
    int64_t values_read = 0;
    levels = static_cast<uint64_t>(
        chunk.as<Type>().ReadBatch(static_cast<int64_t>(std::min(most, kBatchLevels)),
                                   definitions.empty() ? nullptr : definitions.data(),
                                   repetitions.empty() ? nullptr : repetitions.data(),
                                   to != nullptr ? to : values.get(), &values_read));
    value_count = static_cast<uint64_t>(values_read);
  }

  std::vector<int16_t> definitions, repetitions;
  std::unique_ptr<Value[]> values;
  uint64_t levels = 0, value_count = 0;
};

template <class Value>
size_t value_size(const Value& value, size_t fixed_bytes) {
  if constexpr (std::is_same_v<Value, parquet::ByteArray>) return value.len;
  return fixed_bytes;
}

template <class Value>
const void* value_address(const Value& value) {
  if constexpr (std::is_same_v<Value, parquet::ByteArray> ||
                std::is_same_v<Value, parquet::FixedLenByteArray>)
    return value.ptr;
  else
    return &value;
}

// Values of N bytes each (the low ones of an integer), `stride` bytes apart.
template <size_t N, class Value>
void store_strided(std::byte* to, uint64_t stride, const Value* from, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, value_address(from[i]), N);
}

template <class Value>
void store(std::byte* to, uint64_t stride, const Value* from, uint64_t count, size_t bytes) {
  if constexpr (std::is_arithmetic_v<Value>)
    if (stride == sizeof(Value) && bytes == sizeof(Value)) {
      std::memcpy(to, from, count * bytes);
      return;
    }
  switch (bytes) {
    case 1:
      return store_strided<1>(to, stride, from, count);
    case 2:
      if constexpr (sizeof(Value) >= 2) return store_strided<2>(to, stride, from, count);
      break;
    case 4:
      if constexpr (sizeof(Value) >= 4) return store_strided<4>(to, stride, from, count);
      break;
    case 8:
      if constexpr (sizeof(Value) >= 8) return store_strided<8>(to, stride, from, count);
      break;
    default:
      break;
  }
  for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, value_address(from[i]), bytes);
}

// Where the values of one column go when all rows have one size.
struct Slots {
  std::byte* first = nullptr;  // of the first row
  uint64_t row_bytes = 0;      // from row to row
  uint64_t rows = 0;
  uint64_t values = 1;  // per row
};

Error ends_early(uint64_t row, uint64_t rows) {
  return fail(ErrorCode::kCorruption, "its pages end at row {} of {}", row, rows);
}

// A value or a null per row; nulls are zeros.
template <class Type>
Status fill_scalars(Chunk& chunk, const Slots& slots) {
  const size_t bytes = chunk.column().value_bytes;
  const int16_t whole = chunk.column().definition_max;
  Batch<Type> batch(chunk.column());
  for (uint64_t row = 0; row < slots.rows;) {
    batch.read(chunk, slots.rows - row);
    if (batch.levels == 0) return ends_early(row, slots.rows);
    std::byte* to = slots.first + row * slots.row_bytes;
    row += batch.levels;
    if (batch.value_count == batch.levels) {
      store(to, slots.row_bytes, batch.values.get(), batch.levels, bytes);
      continue;
    }
    uint64_t value = 0;
    for (uint64_t i = 0; i < batch.levels; ++i, to += slots.row_bytes)
      if (batch.definitions[i] == whole && value < batch.value_count)
        std::memcpy(to, value_address(batch.values[value++]), bytes);
      else
        std::memset(to, 0, bytes);
  }
  return {};
}

// Whether rows begin in this batch exactly every `values` levels, nothing being null. `position` is
// that of the batch's first level in the column.
template <class Type>
bool is_regular(const Batch<Type>& batch, uint64_t position, uint64_t values) {
  if (batch.value_count != batch.levels) return false;
  uint64_t starts = 0;
  for (uint64_t at = (values - position % values) % values; at < batch.levels; at += values) {
    if (batch.repetitions[at] != 0) return false;
    ++starts;
  }
  const auto first = batch.repetitions.begin();
  const auto found = std::count(first, first + static_cast<ptrdiff_t>(batch.levels), int16_t{0});
  return static_cast<uint64_t>(found) == starts;
}

// Lists of one length. False: they are not.
template <class Type>
Result<bool> fill_lists(Chunk& chunk, const Slots& slots) {
  using Value = typename Type::c_type;
  const size_t bytes = chunk.column().value_bytes;
  const uint64_t count = slots.rows * slots.values;
  const bool is_plain = std::is_arithmetic_v<Value> && sizeof(Value) == bytes &&
                        slots.values * bytes >= kDirectRunBytes &&
                        slots.row_bytes % alignof(Value) == 0 &&
                        reinterpret_cast<uintptr_t>(slots.first) % alignof(Value) == 0;
  Batch<Type> batch(chunk.column());
  for (uint64_t position = 0; position < count;) {
    uint64_t row = position / slots.values, in_row = position % slots.values;
    std::byte* to = slots.first + row * slots.row_bytes + in_row * bytes;
    if (is_plain)
      batch.read(chunk, slots.values - in_row, reinterpret_cast<Value*>(to));
    else
      batch.read(chunk, count - position);
    if (batch.levels == 0) return ends_early(row, slots.rows);
    if (!is_regular(batch, position, slots.values)) return false;
    position += batch.levels;
    for (uint64_t done = 0; !is_plain && done < batch.levels;) {
      const uint64_t run = std::min(slots.values - in_row, batch.levels - done);
      store(slots.first + row * slots.row_bytes + in_row * bytes, bytes, batch.values.get() + done,
            run, bytes);
      done += run;
      in_row = 0;
      ++row;
    }
  }
  return true;
}

// The values of one column as they come, and where each row ends.
struct Collected {
  std::vector<std::byte> bytes;
  std::vector<uint64_t> ends;
};

template <class Type>
Status collect(Chunk& chunk, uint64_t rows, uint64_t bytes_max, Collected& out) {
  const ParquetColumn& column = chunk.column();
  const std::vector<std::byte> zeros(column.is_repeated() ? 0 : column.value_bytes);
  Batch<Type> batch(column);
  uint64_t started = 0;
  for (batch.read(chunk, kBatchLevels); batch.levels > 0; batch.read(chunk, kBatchLevels)) {
    uint64_t value = 0;
    for (uint64_t i = 0; i < batch.levels; ++i) {
      if (!column.is_repeated() || batch.repetitions[i] == 0) {
        if (started > 0) out.ends.push_back(out.bytes.size());
        if (++started > rows)
          return fail(ErrorCode::kCorruption, "its pages hold more than {} rows", rows);
      } else if (started == 0) {
        return fail(ErrorCode::kCorruption, "its pages begin in the middle of a row");
      }
      const bool is_null =
          !batch.definitions.empty() && batch.definitions[i] < column.definition_max;
      if (is_null || value >= batch.value_count) {
        out.bytes.insert(out.bytes.end(), zeros.begin(), zeros.end());
        continue;
      }
      const auto& it = batch.values[value++];
      const auto* from = static_cast<const std::byte*>(value_address(it));
      out.bytes.insert(out.bytes.end(), from, from + value_size(it, column.value_bytes));
    }
    if (out.bytes.size() + out.ends.size() * sizeof(uint64_t) > bytes_max)
      return fail(ErrorCode::kResourceExhausted,
                  "decodes to more than {} bytes: write the file with smaller row groups",
                  bytes_max);
  }
  if (started < rows) return ends_early(started, rows);
  out.ends.push_back(out.bytes.size());
  return {};
}

// Columns beside each other, each in one piece, that are put into rows together.
class Panel {
 public:
  explicit Panel(uint64_t rows) : rows_(rows) {}

  // For columns of `width` bytes per row in all.
  void open(uint64_t width) {
    width_ = width;
    used_ = 0;
    columns_.clear();
    bytes_.resize(std::max(bytes_.size(), width * rows_));
  }
  bool is_full() const { return used_ == width_; }
  uint64_t width() const { return width_; }
  // Room for the next column.
  std::byte* add(uint64_t width) {
    columns_.push_back({bytes_.data() + used_ * rows_, width});
    used_ += width;
    return columns_.back().from;
  }

  void copy_to(std::byte* to, uint64_t row_bytes) const {
    for (uint64_t row = 0; row < rows_; row += kTileRows) {
      const uint64_t count = std::min(kTileRows, rows_ - row);
      std::byte* at = to + row * row_bytes;
      for (const Piece& piece : columns_) {
        copy(at, row_bytes, piece.from + row * piece.width, piece.width, count);
        at += piece.width;
      }
    }
  }

 private:
  struct Piece {
    std::byte* from;
    uint64_t width;
  };

  template <size_t N>
  static void copy_of(std::byte* to, uint64_t stride, const std::byte* from, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * N, N);
  }
  static void copy(std::byte* to, uint64_t stride, const std::byte* from, uint64_t width,
                   uint64_t count) {
    switch (width) {
      case 1:
        return copy_of<1>(to, stride, from, count);
      case 2:
        return copy_of<2>(to, stride, from, count);
      case 4:
        return copy_of<4>(to, stride, from, count);
      case 8:
        return copy_of<8>(to, stride, from, count);
      default:
        for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * width, width);
    }
  }

  uint64_t rows_, width_ = 0, used_ = 0;
  std::vector<Piece> columns_;
  std::vector<std::byte> bytes_;
};

class Decoder {
 public:
  Decoder(std::string_view path, std::span<const std::byte> bytes, const ParquetLayout& layout,
          size_t group)
      : path_(path),
        bytes_(bytes),
        layout_(layout),
        group_(layout.groups[group]),
        chunks_(layout.chunks_of(group)),
        decoded_bytes_max_(decoded_bytes_max(bytes.size())),
        pool_(pool_bytes_max(bytes.size())) {}

  Result<std::shared_ptr<const DecodedBlock>> run() {
    uint64_t expected = 0;
    for (size_t i = 0; i < layout_.columns.size(); ++i) expected += chunks_[i].bytes;
    if (expected != bytes_.size())
      return fail(ErrorCode::kCorruption, "{}: row group {}: {} bytes where it has {}", path_,
                  group_.number, bytes_.size(), expected);
    auto rows = std::make_shared<Rows>();
    rows->count = group_.sample_count;
    const bool is_done = FB_TRY(fill(*rows));
    if (!is_done) FB_TRY(join(*rows));
    return std::shared_ptr<const DecodedBlock>(std::move(rows));
  }

 private:
  std::string where(size_t column) const {
    return fmt::format("{}: row group {}: column {}", path_, group_.number,
                       layout_.columns[column].name);
  }

  // Calls body(chunk) with each column in turn; what Arrow throws becomes an error with its name.
  template <class Body>
  Status each_column(Body&& body) {
    uint64_t at = 0;
    for (size_t i = 0; i < layout_.columns.size(); ++i) {
      try {
        Chunk chunk(bytes_.subspan(at, chunks_[i].bytes), layout_.columns[i], chunks_[i],
                    layout_.is_always_compressed, &pool_);
        Status status = body(i, chunk);
        if (!status.ok()) return std::move(status).context(where(i));
      } catch (...) {
        return parquet_error(where(i));
      }
      at += chunks_[i].bytes;
    }
    return {};
  }

  // Values per row of a column when every row seems to have as many; 0 when not.
  uint64_t values_per_row(size_t column) const {
    const uint64_t levels = chunks_[column].level_count, rows = group_.sample_count;
    if (layout_.columns[column].value_bytes == 0 || rows == 0 || levels % rows != 0) return 0;
    if (!layout_.columns[column].is_repeated() && levels != rows) return 0;
    return levels / rows;
  }

  // One size of row. False: the rows differ.
  Result<bool> fill(Rows& out) {
    uint64_t row_bytes = 0;
    std::optional<ElementType> element = layout_.columns[0].element;
    for (size_t i = 0; i < layout_.columns.size(); ++i) {
      const uint64_t values = values_per_row(i);
      if (values == 0) return false;
      if (values > decoded_bytes_max_) return too_large();
      row_bytes += values * layout_.columns[i].value_bytes;
      if (row_bytes > decoded_bytes_max_ / group_.sample_count) return too_large();
      if (layout_.columns[i].element != element) element.reset();
    }
    out.allocate(row_bytes * group_.sample_count);
    out.row_bytes = row_bytes;
    out.element = element;
    for (size_t i = 0; i < layout_.columns.size(); ++i)
      out.parts.push_back({layout_.columns[i], values_per_row(i) * layout_.columns[i].value_bytes});
    return fill_rows(out);
  }

  // Narrow columns are gathered in panels, so that a row is not visited once for each of them.
  Result<bool> fill_rows(Rows& out) {
    Panel panel(out.count);
    std::byte* to = out.data.get();
    bool is_regular = true;
    const Status status = each_column([&](size_t i, Chunk& chunk) -> Status {
      if (!is_regular) return {};
      if (panel.is_full()) panel.open(panel_width(i));
      Slots slots{.first = to, .row_bytes = out.row_bytes, .rows = out.count};
      slots.values = values_per_row(i);
      const uint64_t bytes = slots.values * layout_.columns[i].value_bytes;
      const bool is_in_panel = !panel.is_full();
      if (is_in_panel) slots.first = panel.add(slots.row_bytes = bytes);
      is_regular = FB_TRY(fill_column(chunk, slots));
      if (is_in_panel && panel.is_full()) panel.copy_to(to, out.row_bytes);
      if (panel.is_full()) to += is_in_panel ? panel.width() : bytes;
      return {};
    });
    if (!status.ok()) return status.error();
    return is_regular;
  }

  // Bytes per row of the columns from `first` on that share a panel; 0 when there are less than
  // two.
  uint64_t panel_width(size_t first) const {
    uint64_t width = 0;
    size_t i = first;
    for (; i < layout_.columns.size(); ++i) {
      const uint64_t bytes = values_per_row(i) * layout_.columns[i].value_bytes;
      if (width + bytes > kPanelBytes) break;
      width += bytes;
    }
    const bool is_whole_row = first == 0 && i == layout_.columns.size();
    return i < first + 2 || is_whole_row ? 0 : width;
  }

  static Result<bool> fill_column(Chunk& chunk, const Slots& slots) {
    return with_type(chunk.column(), [&]<class Type>(Type) -> Result<bool> {
      if (chunk.column().is_repeated()) return fill_lists<Type>(chunk, slots);
      FB_TRY(fill_scalars<Type>(chunk, slots));
      return true;
    });
  }

  // Rows of any size.
  Status join(Rows& out) {
    std::vector<Collected> columns(layout_.columns.size());
    uint64_t total = 0, held = 0;
    Status status = each_column([&](size_t i, Chunk& chunk) -> Status {
      const uint64_t left = decoded_bytes_max_ - std::min(held, decoded_bytes_max_);
      FB_TRY(with_type(chunk.column(), [&]<class Type>(Type) {
        return collect<Type>(chunk, group_.sample_count, left, columns[i]);
      }));
      total += columns[i].bytes.size();
      held += columns[i].bytes.size() + columns[i].ends.size() * sizeof(uint64_t);
      return {};
    });
    if (!status.ok()) return status;
    out.allocate(total);
    out.element.reset();
    out.ends.resize(group_.sample_count);
    std::byte* to = out.data.get();
    for (uint64_t row = 0; row < group_.sample_count; ++row) {
      for (const Collected& column : columns) {
        const uint64_t begin = row == 0 ? 0 : column.ends[row - 1];
        const uint64_t n = column.ends[row] - begin;
        if (n > 0) std::memcpy(to, column.bytes.data() + begin, n);
        to += n;
      }
      out.ends[row] = static_cast<uint64_t>(to - out.data.get());
    }
    out.parts.clear();
    for (size_t i = 0; i < columns.size(); ++i)
      out.parts.push_back({layout_.columns[i], 0, std::move(columns[i].ends)});
    return {};
  }

  Error too_large() const {
    return fail(ErrorCode::kResourceExhausted,
                "{}: row group {} decodes to more than {} bytes: write the file with smaller row "
                "groups",
                path_, group_.number, decoded_bytes_max_);
  }

  std::string_view path_;
  std::span<const std::byte> bytes_;
  const ParquetLayout& layout_;
  const ParquetGroup& group_;
  const ParquetChunk* chunks_;
  uint64_t decoded_bytes_max_;
  ParquetPool pool_;
};

}  // namespace

Result<std::shared_ptr<const DecodedBlock>> decode_parquet_group(std::string_view path,
                                                                 std::span<const std::byte> bytes,
                                                                 const ParquetLayout& layout,
                                                                 size_t group) {
  return Decoder(path, bytes, layout, group).run();
}

}  // namespace forebay::formats
