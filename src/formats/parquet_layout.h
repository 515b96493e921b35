// What decoding a row group needs to know of a parquet file besides its bytes: far less than the
// footer says, and equal for files that are laid out alike.
//
// Values; safe to copy and to read from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"

namespace forebay::formats {

// How parquet stores a value. The numbers are the format's own.
enum class PhysicalType : uint8_t {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,
  kFloat = 4,
  kDouble = 5,
  kByteArray = 6,
  kFixedBytes = 7,
};

// A leaf of the schema that is read.
struct ParquetColumn {
  std::string name;  // "a.list.element"
  PhysicalType physical = PhysicalType::kInt32;
  uint32_t fixed_bytes = 0;  // kFixedBytes: the length of a value
  // Of one value in a record, narrower than the stored one for 8- and 16-bit integers; 0 for
  // kByteArray.
  uint32_t value_bytes = 0;
  std::optional<ElementType> element{};  // when the value is one of ours
  int16_t definition_max = 0, repetition_max = 0;
  bool is_text = false, is_json = false;  // kByteArray: what its bytes are said to be
  std::string part{};                     // name of the column in whole samples

  bool is_repeated() const { return repetition_max > 0; }
};

// The values of one column in one row group.
struct ParquetChunk {
  uint64_t bytes = 0;        // pages with their headers, as they lie in the file
  uint64_t level_count = 0;  // values and nulls
  uint8_t codec = 0;         // Arrow's number
  bool operator==(const ParquetChunk&) const = default;
};

struct ParquetGroup {
  uint64_t number = 0;  // in the file, groups without rows included; for messages
  uint64_t first_sample = 0, sample_count = 0;
  uint64_t chunk_row = 0;  // groups that are alike may share one
};

struct ParquetLayout {
  // Pages of the second version are compressed whatever their header says (old writers).
  bool is_always_compressed = false;
  std::vector<ParquetColumn> columns{};
  std::vector<ParquetGroup> groups{};
  std::vector<ParquetChunk> chunks{};  // rows of one chunk per column

  // As many as there are columns. Undefined unless `group` is an index of groups.
  const ParquetChunk* chunks_of(size_t group) const {
    return chunks.data() + groups[group].chunk_row * columns.size();
  }
};

// The form for FileIndex::detail and back. A group equal to the one before it costs one byte.
std::string write_layout(const ParquetLayout& layout);
Result<ParquetLayout> parse_layout(std::string_view text);  // kCorruption

}  // namespace forebay::formats
