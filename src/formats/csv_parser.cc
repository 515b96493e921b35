#include "formats/csv_parser.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "formats/content_kind.h"
#include "formats/little_endian.h"

namespace forebay::formats {
namespace {

constexpr size_t kFieldBytesMax = 512;  // more than any number needs

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view trimmed(std::string_view field) {
  while (!field.empty() && (field.front() == ' ' || field.front() == '\t')) field.remove_prefix(1);
  while (!field.empty() && (field.back() == ' ' || field.back() == '\t')) field.remove_suffix(1);
  return field;
}

enum class Number { kNone, kOutOfRange, kSigned, kUnsigned, kFloat };
struct Parsed {
  Number number = Number::kNone;
  int64_t as_signed = 0;
  uint64_t as_unsigned = 0;
  double as_float = 0;
};

// `field` is trimmed. Whole numbers that 64 bits hold stay whole.
Parsed parse_number(std::string_view field) {
  // numpy and pandas write booleans as words.
  if (field == "True") return {.number = Number::kSigned, .as_signed = 1};
  if (field == "False") return {.number = Number::kSigned, .as_signed = 0};
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') field.remove_prefix(1);
  Parsed parsed;
  const char* first = field.data();
  const char* last = first + field.size();
  const size_t sign = field.empty() || field[0] != '-' ? 0 : 1;
  if (field.size() > sign && std::all_of(first + sign, last, is_digit)) {
    if (std::from_chars(first, last, parsed.as_signed).ec == std::errc()) {
      parsed.number = Number::kSigned;
      return parsed;
    }
    if (sign == 0 && std::from_chars(first, last, parsed.as_unsigned).ec == std::errc()) {
      parsed.number = Number::kUnsigned;
      return parsed;
    }
  }
  const auto result = std::from_chars(first, last, parsed.as_float);
  if (result.ptr != last || field.empty()) return parsed;
  if (result.ec == std::errc()) parsed.number = Number::kFloat;
  if (result.ec == std::errc::result_out_of_range) parsed.number = Number::kOutOfRange;
  return parsed;
}

// Bytes of `word` up to the first that is no digit; 8 when all are digits. A carry can only leave a
// byte that is no digit, so the first one found is right.
unsigned leading_digits(uint64_t word) {
  const uint64_t values = word ^ 0x3030303030303030u;  // digits become 0 to 9
  const uint64_t others = ((values + 0x7676767676767676u) | values) & 0x8080808080808080u;
  return others == 0 ? 8 : static_cast<unsigned>(std::countr_zero(others)) / 8;
}

// The number that the first `digits` (1 to 7) bytes of `word` spell: pairs, then fours, then all.
uint64_t number_of(uint64_t word, unsigned digits) {
  uint64_t value = (word ^ 0x3030303030303030u) << (64 - 8 * digits);
  value = (value * 10 + (value >> 8)) & 0x00ff00ff00ff00ffu;
  value = (value * 100 + (value >> 16)) & 0x0000ffff0000ffffu;
  return (value * 10000 + (value >> 32)) & 0xffffffffu;
}

}  // namespace

CsvLayout layout_from_first_field(std::string_view field) {
  if (field.starts_with(kByteOrderMark)) field.remove_prefix(kByteOrderMark.size());
  field = trimmed(field);
  if (field.empty()) return {.has_header = true, .has_row_numbers = true};
  return {.has_header = parse_number(field).number == Number::kNone};
}

void CsvParser::reset(State state, uint64_t line) {
  state_ = state;
  layout_ = {};
  line_ = line;
  fields_ = blank_line_ = rows_ = bytes_seen_ = 0;
  held_.clear();
  kind_ = Kind::kSigned;
  has_negative_ = false;
  count_ = 0;
}

void CsvParser::begin() {
  reset(State::kFirstField, 1);
}

void CsvParser::begin_data(const CsvLayout& layout, uint64_t line, uint64_t offset) {
  reset(State::kData, line);
  bytes_seen_ = offset;
  layout_ = layout;
}

ElementType CsvParser::type() const {
  switch (kind_) {
    case Kind::kSigned:
      return ElementType::kI64;
    case Kind::kUnsigned:
      return ElementType::kU64;
    case Kind::kFloat:
      break;
  }
  return ElementType::kF64;
}

std::span<const std::byte> CsvParser::values() const {
  if (!keeps_values_) return {};
  return std::as_bytes(std::span<const uint64_t>(values_.get(), count_));
}

Status CsvParser::append(std::span<const std::byte> text) {
  bytes_seen_ += text.size();
  const char* at = reinterpret_cast<const char*>(text.data());
  const char* end = at + text.size();
  while (at != end) {
    switch (state_) {
      case State::kFirstField:
        FB_TRY(first_field(at, end));
        break;
      case State::kHeader: {
        const void* line_end = std::memchr(at, '\n', static_cast<size_t>(end - at));
        if (line_end == nullptr) return {};
        at = static_cast<const char*>(line_end) + 1;
        ++line_;
        state_ = State::kData;
        break;
      }
      case State::kData:
        FB_TRY(data(at, end));
        break;
    }
  }
  return {};
}

Status CsvParser::first_field(const char*& at, const char* end) {
  const char* stop = std::find_if(at, end, [](char c) { return c == ',' || c == '\n'; });
  held_.append(at, stop);
  at = stop;
  if (held_.size() > kFieldBytesMax)
    return fail(ErrorCode::kCorruption, "line 1, column 1: a field of more than {} characters",
                kFieldBytesMax);
  if (stop == end) return {};
  FB_TRY(refuse_lfs_pointer(std::as_bytes(std::span(held_))));
  std::string field = std::move(held_);
  held_.clear();
  if (*stop == '\n' && field.ends_with('\r')) field.pop_back();
  if (*stop == '\n' && field.empty()) {  // a blank line is no header
    ++at;
    state_ = State::kData;
    return end_blank_line();
  }
  layout_ = layout_from_first_field(field);
  if (layout_.has_header) {
    state_ = State::kHeader;
    return {};
  }
  if (std::string_view(field).starts_with(kByteOrderMark)) field.erase(0, kByteOrderMark.size());
  state_ = State::kData;
  ++at;
  return take_field(field, *stop);
}

Status CsvParser::data(const char*& at, const char* end) {
  if (held_.empty())
    at = keeps_values_ ? run_of_small_numbers<true>(at, end) : run_of_small_numbers<false>(at, end);
  // A field that is long, signed, broken or cut by the end of the piece, or the end of a line.
  const char* stop = std::find_if(at, end, [](char c) { return c == ',' || c == '\n'; });
  if (static_cast<size_t>(stop - at) + held_.size() > kFieldBytesMax)
    return fail(ErrorCode::kCorruption, "line {}, column {}: a field of more than {} characters",
                line_, fields_ + 1, kFieldBytesMax);
  if (stop == end) {
    held_.append(at, stop);
    at = stop;
    return {};
  }
  std::string_view field(at, static_cast<size_t>(stop - at));
  std::string joined;
  if (!held_.empty()) {
    joined = std::move(held_);
    held_.clear();
    joined += field;
    field = joined;
  }
  at = stop + 1;
  return take_field(field, *stop);
}

// Fields of one to seven digits that a comma ends: eight bytes tell it all, without a branch on
// their length. Returns where something else begins.
template <bool kKeeps>
const char* CsvParser::run_of_small_numbers(const char* at, const char* end) {
  if (fields_ == 0 && layout_.has_row_numbers) return at;
  uint64_t taken = 0;
  while (end - at >= 8) {
    const auto word = load_le<uint64_t>(reinterpret_cast<const std::byte*>(at));
    const unsigned digits = leading_digits(word);
    if (digits - 1 >= 7 || at[digits] != ',') break;  // also when there are none
    at += digits + 1;
    if constexpr (kKeeps) {
      const uint64_t value = number_of(word, digits);
      if (count_ + taken == capacity_) {
        count_ += taken;
        fields_ += taken;
        taken = 0;
        grow();
      }
      values_[count_ + taken] =
          kind_ == Kind::kFloat ? std::bit_cast<uint64_t>(static_cast<double>(value)) : value;
    }
    ++taken;
  }
  fields_ += taken;
  count_ += taken;
  return at;
}

Status CsvParser::take_field(std::string_view field, char delimiter) {
  if (delimiter == '\n' && field.ends_with('\r')) field.remove_suffix(1);
  if (delimiter == '\n' && fields_ == 0 && field.empty()) return end_blank_line();
  FB_TRY(parse_field(trimmed(field)));
  ++fields_;
  return delimiter == '\n' ? end_line() : Status();
}

Status CsvParser::parse_field(std::string_view field) {
  const Parsed parsed = parse_number(field);
  if (parsed.number == Number::kNone)
    return at_field(field.empty() ? "empty field" : "not a number", field);
  if (parsed.number == Number::kOutOfRange)
    return at_field("a number that no 64-bit type holds", field);
  if (fields_ == 0 && layout_.has_row_numbers) return {};
  if (parsed.number == Number::kSigned)
    put_whole(parsed.as_signed);
  else if (parsed.number == Number::kUnsigned)
    put_large(parsed.as_unsigned);
  else
    put_float(parsed.as_float);
  return {};
}

Status CsvParser::end_line() {
  const uint64_t columns = fields_ - (layout_.has_row_numbers ? 1 : 0);
  if (columns == 0)
    return fail(ErrorCode::kCorruption, "line {}: no value beside its row number", line_);
  if (blank_line_ > 0) return fail(ErrorCode::kCorruption, "a blank line precedes line {}", line_);
  if (layout_.columns == 0) layout_.columns = columns;
  if (columns != layout_.columns)
    return fail(ErrorCode::kCorruption, "line {}: {} values, the lines before have {}", line_,
                columns, layout_.columns);
  fields_ = 0;
  ++rows_;
  ++line_;
  return {};
}

Status CsvParser::end_blank_line() {
  if (blank_line_ == 0) blank_line_ = line_;
  ++line_;
  return {};
}

Status CsvParser::finish() {
  if (bytes_seen_ == 0) return fail(ErrorCode::kCorruption, "empty file");
  if (state_ != State::kData || !held_.empty() || fields_ > 0)
    return fail(ErrorCode::kCorruption, "truncated at byte {}: line {} has no end", bytes_seen_,
                line_);
  if (rows_ == 0) return fail(ErrorCode::kCorruption, "no line of numbers");
  return {};
}

Error CsvParser::at_field(std::string_view what, std::string_view field) const {
  constexpr size_t kShown = 40;
  std::string shown(field.substr(0, kShown));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  return fail(
      ErrorCode::kCorruption, "line {}, column {}: {}{}", line_, fields_ + 1, what,
      field.empty() ? "" : fmt::format(": '{}{}'", shown, field.size() > kShown ? "..." : ""));
}

void CsvParser::put_whole(int64_t value) {
  has_negative_ = has_negative_ || value < 0;
  if (value < 0 && kind_ == Kind::kUnsigned) widen(Kind::kFloat);
  put_bits(kind_ == Kind::kFloat ? std::bit_cast<uint64_t>(static_cast<double>(value))
                                 : static_cast<uint64_t>(value));
}

void CsvParser::put_large(uint64_t value) {
  if (kind_ == Kind::kSigned) widen(has_negative_ ? Kind::kFloat : Kind::kUnsigned);
  put_bits(kind_ == Kind::kFloat ? std::bit_cast<uint64_t>(static_cast<double>(value)) : value);
}

void CsvParser::put_float(double value) {
  if (kind_ != Kind::kFloat) widen(Kind::kFloat);
  put_bits(std::bit_cast<uint64_t>(value));
}

void CsvParser::put_bits(uint64_t bits) {
  if (keeps_values_) {
    if (count_ == capacity_) grow();
    values_[count_] = bits;
  }
  ++count_;
}

// Values that were kept under a narrower kind are converted.
void CsvParser::widen(Kind kind) {
  if (keeps_values_ && kind == Kind::kFloat)
    for (uint64_t i = 0; i < count_; ++i) {
      const double value = kind_ == Kind::kSigned
                               ? static_cast<double>(static_cast<int64_t>(values_[i]))
                               : static_cast<double>(values_[i]);
      values_[i] = std::bit_cast<uint64_t>(value);
    }
  kind_ = kind;
}

void CsvParser::grow() {
  const uint64_t wanted = std::max({capacity_ * 2, layout_.columns, uint64_t{512}});
  std::unique_ptr<uint64_t[]> larger(new uint64_t[wanted]);  // not cleared
  std::copy_n(values_.get(), count_, larger.get());
  values_ = std::move(larger);
  capacity_ = wanted;
}

}  // namespace forebay::formats
