#include "formats/parquet_layout.h"

#include <algorithm>

#include "base/error.h"

namespace forebay::formats {
namespace {

constexpr std::string_view kHead = "parquet2";
// How a group is written: as the one before, as that one but for the bytes of its chunks (by their
// difference), or in full.
constexpr uint64_t kSame = 0, kOtherBytes = 1, kNew = 2;

void put(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Small differences of either sign as small numbers.
uint64_t difference(uint64_t from, uint64_t to) {
  const auto change = static_cast<int64_t>(to - from);
  return static_cast<uint64_t>(change) << 1 ^ static_cast<uint64_t>(change >> 63);
}
uint64_t add_difference(uint64_t from, uint64_t coded) {
  return from + (coded >> 1 ^ (~(coded & 1) + 1));
}

bool is_alike_but_for_bytes(const ParquetChunk& a, const ParquetChunk& b) {
  return a.level_count == b.level_count && a.codec == b.codec;
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
  const uint64_t flags = numbers.next();
  is_possible = is_possible && flags <= 3;
  column.is_text = (flags & 1) != 0;
  column.is_json = (flags & 2) != 0;
  column.part = numbers.text(numbers.count());
  return column;
}

// Widths that the decoder relies on.
bool has_right_widths(const ParquetColumn& column) {
  const uint32_t n = column.value_bytes;
  switch (column.physical) {
    case PhysicalType::kBoolean:
      return n == 1;
    case PhysicalType::kInt32:
      return n == 1 || n == 2 || n == 4;
    case PhysicalType::kInt64:
      return n == 8;
    case PhysicalType::kInt96:
      return n == 12;
    case PhysicalType::kFloat:
      return n == 4;
    case PhysicalType::kDouble:
      return n == 8;
    case PhysicalType::kByteArray:
      return n == 0;
    case PhysicalType::kFixedBytes:
      return n == column.fixed_bytes && n > 0;
  }
  return false;
}

void put_group(std::string& out, const ParquetLayout& layout, size_t number) {
  const ParquetGroup& group = layout.groups[number];
  const ParquetChunk* chunks = layout.chunks_of(number);
  const size_t n = layout.columns.size();
  const ParquetGroup* before = number > 0 ? &layout.groups[number - 1] : nullptr;
  const ParquetChunk* old = number > 0 ? layout.chunks_of(number - 1) : nullptr;
  const bool is_next = before != nullptr && group.number == before->number + 1 &&
                       group.sample_count == before->sample_count;
  if (is_next && std::equal(chunks, chunks + n, old)) {
    put(out, kSame);
  } else if (is_next && std::equal(chunks, chunks + n, old, is_alike_but_for_bytes)) {
    put(out, kOtherBytes);
    for (size_t i = 0; i < n; ++i) put(out, difference(old[i].bytes, chunks[i].bytes));
  } else {
    put(out, kNew);
    put(out, group.number);
    put(out, group.sample_count);
    for (size_t i = 0; i < n; ++i) {
      put(out, chunks[i].bytes);
      put(out, chunks[i].level_count);
      put(out, chunks[i].codec);
    }
  }
}

// False: damaged.
bool next_group(Numbers& numbers, ParquetLayout& layout) {
  const size_t n = layout.columns.size();
  const uint64_t mode = numbers.next();
  ParquetGroup group;
  if (mode == kNew) {
    group.number = numbers.next();
    group.sample_count = numbers.next();
    group.chunk_row = layout.chunks.size() / n;
    for (size_t i = 0; i < n && numbers.ok(); ++i) {
      ParquetChunk chunk{.bytes = numbers.next(), .level_count = numbers.next()};
      chunk.codec = static_cast<uint8_t>(numbers.next());
      layout.chunks.push_back(chunk);
    }
  } else {
    if (layout.groups.empty() || mode > kNew) return false;
    group = layout.groups.back();
    ++group.number;
    if (mode == kOtherBytes) {
      const size_t old = group.chunk_row * n;
      group.chunk_row = layout.chunks.size() / n;
      for (size_t i = 0; i < n && numbers.ok(); ++i) {
        ParquetChunk chunk = layout.chunks[old + i];
        chunk.bytes = add_difference(chunk.bytes, numbers.next());
        layout.chunks.push_back(chunk);
      }
    }
  }
  group.first_sample = layout.groups.empty()
                           ? 0
                           : layout.groups.back().first_sample + layout.groups.back().sample_count;
  if (group.sample_count > INT64_MAX - group.first_sample) return false;
  layout.groups.push_back(group);
  return numbers.ok();
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
    put(out, (column.is_text ? 1 : 0) + (column.is_json ? 2 : 0));
    put(out, column.part.size());
    out += column.part;
  }
  put(out, layout.groups.size());
  for (size_t i = 0; i < layout.groups.size(); ++i) put_group(out, layout, i);
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
  for (size_t i = 0; i < groups; ++i)
    if (!next_group(numbers, layout)) return damaged();
  if (!numbers.ok() || !numbers.at_end()) return damaged();
  return layout;
}

}  // namespace forebay::formats
