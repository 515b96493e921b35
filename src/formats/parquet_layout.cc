#include "formats/parquet_layout.h"

#include <algorithm>

#include "base/error.h"

namespace forebay::formats {
namespace {

constexpr std::string_view kHead = "parquet1";
constexpr uint64_t kSameAsBefore = 0, kNew = 1;

void put(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Takes numbers off the front of a text; after the end every number is 0 and ok() false.
class Numbers {
 public:
  explicit Numbers(std::string_view text) : text_(text) {}

  uint64_t next() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !text_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(text_.front());
      text_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    is_ok_ = false;
    return 0;
  }
  // A count of things that take at least one byte each, so that no claim outgrows the text.
  size_t count() {
    const uint64_t value = next();
    if (value > text_.size()) is_ok_ = false;
    return is_ok_ ? value : 0;
  }
  std::string_view text(size_t size) {
    if (size > text_.size()) is_ok_ = false;
    if (!is_ok_) return {};
    const std::string_view taken = text_.substr(0, size);
    text_.remove_prefix(size);
    return taken;
  }
  bool ok() const { return is_ok_; }
  bool at_end() const { return text_.empty(); }

 private:
  std::string_view text_;
  bool is_ok_ = true;
};

ParquetColumn next_column(Numbers& numbers, bool& is_possible) {
  ParquetColumn column;
  column.name = numbers.text(numbers.count());
  const uint64_t physical = numbers.next();
  const uint64_t fixed_bytes = numbers.next(), value_bytes = numbers.next();
  const uint64_t element = numbers.next();
  const uint64_t definition = numbers.next(), repetition = numbers.next();
  is_possible = physical <= 7 && fixed_bytes <= INT32_MAX && value_bytes <= INT32_MAX &&
                element <= 14 && definition <= INT16_MAX && repetition <= definition;
  column.physical = static_cast<PhysicalType>(physical);
  column.fixed_bytes = static_cast<uint32_t>(fixed_bytes);
  column.value_bytes = static_cast<uint32_t>(value_bytes);
  if (element > 0) column.element = static_cast<ElementType>(element - 1);
  column.definition_max = static_cast<int16_t>(definition);
  column.repetition_max = static_cast<int16_t>(repetition);
  return column;
}

// Widths that the decoder relies on.
bool has_right_widths(const ParquetColumn& column) {
  const uint32_t n = column.value_bytes;
  switch (column.physical) {
    case PhysicalType::kBoolean: return n == 1;
    case PhysicalType::kInt32: return n == 1 || n == 2 || n == 4;
    case PhysicalType::kInt64: return n == 8;
    case PhysicalType::kInt96: return n == 12;
    case PhysicalType::kFloat: return n == 4;
    case PhysicalType::kDouble: return n == 8;
    case PhysicalType::kByteArray: return n == 0;
    case PhysicalType::kFixedBytes: return n == column.fixed_bytes && n > 0;
  }
  return false;
}

}  // namespace

std::string write_layout(const ParquetLayout& layout) {
  std::string out(kHead);
  put(out, layout.is_always_compressed ? 1 : 0);
  put(out, layout.columns.size());
  for (const ParquetColumn& column : layout.columns) {
    put(out, column.name.size());
    out += column.name;
    put(out, static_cast<uint64_t>(column.physical));
    put(out, column.fixed_bytes);
    put(out, column.value_bytes);
    put(out, column.element ? static_cast<uint64_t>(*column.element) + 1 : 0);
    put(out, static_cast<uint64_t>(column.definition_max));
    put(out, static_cast<uint64_t>(column.repetition_max));
  }
  put(out, layout.groups.size());
  const size_t n = layout.columns.size();
  uint64_t number = 0, rows = 0;
  for (size_t group = 0; group < layout.groups.size(); ++group) {
    const ParquetGroup& it = layout.groups[group];
    const ParquetChunk* chunks = layout.chunks_of(group);
    const bool is_same =
        group > 0 && it.number == number + 1 && it.sample_count == rows &&
        std::equal(chunks, chunks + n, layout.chunks_of(group - 1));
    number = it.number;
    rows = it.sample_count;
    put(out, is_same ? kSameAsBefore : kNew);
    if (is_same) continue;
    put(out, number);
    put(out, rows);
    for (size_t column = 0; column < n; ++column) {
      put(out, chunks[column].bytes);
      put(out, chunks[column].level_count);
      put(out, chunks[column].codec);
    }
  }
  return out;
}

Result<ParquetLayout> parse_layout(std::string_view text) {
  const auto damaged = [] {
    return fail(ErrorCode::kCorruption, "the description of the parquet file is damaged");
  };
  if (text.substr(0, kHead.size()) != kHead) return damaged();
  Numbers numbers(text.substr(kHead.size()));
  ParquetLayout layout;
  layout.is_always_compressed = numbers.next() != 0;
  const size_t columns = numbers.count();
  for (size_t i = 0; i < columns && numbers.ok(); ++i) {
    bool is_possible = false;
    layout.columns.push_back(next_column(numbers, is_possible));
    if (!is_possible || !has_right_widths(layout.columns.back())) return damaged();
  }
  if (columns == 0) return damaged();
  const size_t groups = numbers.count();
  uint64_t first = 0;
  for (size_t i = 0; i < groups && numbers.ok(); ++i) {
    ParquetGroup group{.first_sample = first};
    if (numbers.next() == kSameAsBefore) {
      if (i == 0) return damaged();
      group.number = layout.groups.back().number + 1;
      group.sample_count = layout.groups.back().sample_count;
      group.chunk_row = layout.groups.back().chunk_row;
    } else {
      group.number = numbers.next();
      group.sample_count = numbers.next();
      group.chunk_row = layout.chunks.size() / columns;
      for (size_t column = 0; column < columns && numbers.ok(); ++column) {
        ParquetChunk chunk{.bytes = numbers.next(), .level_count = numbers.next()};
        chunk.codec = static_cast<uint8_t>(numbers.next());
        layout.chunks.push_back(chunk);
      }
    }
    if (group.sample_count > INT64_MAX - first) return damaged();
    first += group.sample_count;
    layout.groups.push_back(group);
  }
  if (!numbers.ok() || !numbers.at_end()) return damaged();
  return layout;
}

}  // namespace forebay::formats
