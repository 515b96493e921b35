// Numbers out of CSV text that comes in pieces: values, line by line, or just their count.
//
// The first field decides what the first line is: empty = a header over a column of row numbers
// (as pandas writes by default), no number = a header, a number = data. All lines of data have the
// same number of fields, every field is a number, and the last line ends as the others do: a file
// that was cut is never taken as whole. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "forebay/result.h"
#include "formats/format.h"

namespace forebay::formats {

// UTF-8's; before the first line it is passed over.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// What is known of a file's lines.
struct CsvLayout {
  bool has_header = false;
  bool has_row_numbers = false;  // the first field of each line is no value
  uint64_t columns = 0;          // values of a line; 0 = not known yet
};

// What the first field of a file, cut at its comma or line end, says of the file.
CsvLayout layout_from_first_field(std::string_view field);

class CsvParser {
 public:
  // Values are kept, or only counted.
  explicit CsvParser(bool keeps_values) : keeps_values_(keeps_values) {}

  // Ready for a file from its start.
  void begin();
  // Ready for lines of data from line number `line` (1 = first of the file) on.
  void begin_data(const CsvLayout& layout, uint64_t line, uint64_t offset);

  // kCorruption "line 3, column 5: not a number: 'abc'"; columns count fields from 1.
  Status append(std::span<const std::byte> text);
  // kCorruption when the last line has no end, or there was no line of data.
  Status finish();

  const CsvLayout& layout() const { return layout_; }
  uint64_t rows() const { return rows_; }
  uint64_t value_count() const { return count_; }
  // Of all values since begin: int64 when every one is whole and fits, else uint64 when all are
  // whole and none negative, else float64. Eight bytes each.
  ElementType type() const;
  std::span<const std::byte> values() const;  // valid until the next append or begin

 private:
  enum class State { kFirstField, kHeader, kData };
  enum class Kind { kSigned, kUnsigned, kFloat };

  void reset(State state, uint64_t line);
  Status first_field(const char*& at, const char* end);
  Status data(const char*& at, const char* end);
  template <bool kKeeps>
  const char* run_of_small_numbers(const char* at, const char* end);
  // One field without its delimiter (',' or '\n').
  Status take_field(std::string_view field, char delimiter);
  Status parse_field(std::string_view field);
  Status end_field(char delimiter);
  Status end_line();
  Status end_blank_line();
  Error at_field(std::string_view what, std::string_view field) const;
  void put_whole(int64_t value);
  void put_large(uint64_t value);
  void put_float(double value);
  void put_bits(uint64_t bits);
  void widen(Kind kind);
  void grow();

  const bool keeps_values_;
  State state_ = State::kFirstField;
  CsvLayout layout_;
  uint64_t line_ = 1;        // the one being read
  uint64_t fields_ = 0;      // of it, complete ones
  uint64_t blank_line_ = 0;  // the first one; data must not follow
  uint64_t rows_ = 0;
  uint64_t bytes_seen_ = 0;
  std::string held_;  // the part of a field that the last piece ended with

  Kind kind_ = Kind::kSigned;
  bool has_negative_ = false;
  uint64_t count_ = 0;
  uint64_t capacity_ = 0;
  std::unique_ptr<uint64_t[]> values_;  // bits of int64, uint64 or double, by kind_
};

}  // namespace forebay::formats
