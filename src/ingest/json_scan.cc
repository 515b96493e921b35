#include "ingest/json_scan.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "ingest/json_reader.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace forebay::ingest {
namespace {

#if defined(__SSE2__)
unsigned mask_of(__m128i block, char c) {
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8(c))));
}

// The first quotation mark or backslash; `end` or beyond when there is none.
const char* find_quote(const char* at, const char* end) {
  for (; at < end; at += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const unsigned mask = mask_of(block, '"') | mask_of(block, '\\');
    if (mask != 0) return at + std::countr_zero(mask);
  }
  return end;
}

// The first quotation mark, bracket or brace.
const char* find_structure(const char* at, const char* end) {
  for (; at < end; at += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    // '[' and '{' differ in one bit, and so do ']' and '}'.
    const __m128i folded = _mm_or_si128(block, _mm_set1_epi8(0x20));
    const unsigned mask = mask_of(block, '"') | mask_of(folded, '{') | mask_of(folded, '}');
    if (mask != 0) return at + std::countr_zero(mask);
  }
  return end;
}
#else
const char* find_quote(const char* at, const char* end) {
  while (at < end && *at != '"' && *at != '\\') ++at;
  return at;
}
const char* find_structure(const char* at, const char* end) {
  while (at < end && *at != '"' && (*at | 0x20) != '{' && (*at | 0x20) != '}') ++at;
  return at;
}
#endif

class Scanner {
 public:
  Scanner(const char* at, const char* end, ScanRules rules)
      : at_(at), end_(end), is_lenient_(rules == ScanRules::kLenient) {}

  const char* at() const { return at_; }

  // Members of the object here; those of "args" go to `arguments` unless that is null.
  Scan members(std::vector<JsonField>& fields, std::vector<JsonField>* arguments) {
    ++at_;
    blanks();
    if (at_ < end_ && *at_ == '}') {
      ++at_;
      return Scan::kOk;
    }
    while (true) {
      JsonField field;
      bool is_escaped = false;
      if (const Scan scan = string(field.key, is_escaped, true); scan != Scan::kOk) return scan;
      blanks();
      if (at_ >= end_) return Scan::kMore;
      if (*at_ != ':') return Scan::kBad;
      ++at_;
      blanks();
      if (at_ >= end_) return Scan::kMore;
      const bool is_arguments =
          arguments != nullptr && *at_ == '{' && field.key.size() == 4 && field.key == "args";
      const Scan scan = is_arguments ? members(*arguments, nullptr) : value(field);
      if (scan != Scan::kOk) return scan;
      if (!is_arguments) fields.push_back(field);
      blanks();
      if (at_ >= end_) return Scan::kMore;
      const char c = *at_++;
      if (c == '}') return Scan::kOk;
      if (c != ',') return Scan::kBad;
      blanks();
      if (at_ < end_ && *at_ == '}') {  // a comma too many
        ++at_;
        return Scan::kOk;
      }
    }
  }

 private:
  void blanks() {
    while (at_ < end_ && is_blank(*at_)) ++at_;
  }

  // Whether JSON goes on behind a quotation mark that stands before `next`.
  Scan ends_string(const char* next, bool is_key) const {
    const auto skip = [&] {
      while (next < end_ && is_blank(*next)) ++next;
    };
    skip();
    if (next >= end_) return Scan::kMore;
    if (is_key) return *next == ':' ? Scan::kOk : Scan::kBad;
    if (*next == '}' || *next == ']') {
      // Behind the end of an object or array stands more of the same, or an end.
      ++next;
      skip();
      if (next >= end_) return Scan::kOk;
      return *next == ',' || *next == '}' || *next == ']' ? Scan::kOk : Scan::kBad;
    }
    if (*next != ',') return Scan::kBad;
    ++next;
    skip();
    if (next >= end_) return Scan::kMore;
    if (*next != '"') return Scan::kBad;
    // "key": and not just another word of the text.
    const char* close =
        static_cast<const char*>(std::memchr(next + 1, '"', static_cast<size_t>(end_ - next - 1)));
    if (close == nullptr) return Scan::kMore;
    next = close + 1;
    skip();
    return next >= end_ ? Scan::kMore : *next == ':' ? Scan::kOk : Scan::kBad;
  }

  Scan string(std::string_view& out, bool& is_escaped, bool is_key) {
    if (at_ >= end_) return Scan::kMore;
    if (*at_ != '"') return Scan::kBad;
    const char* const begin = ++at_;
    while (true) {
      at_ = find_quote(at_, end_);
      if (at_ >= end_) return Scan::kMore;
      if (*at_ == '\\') {
        is_escaped = true;
        at_ += 2;
        continue;
      }
      if (is_lenient_) {
        const Scan scan = ends_string(at_ + 1, is_key);
        if (scan == Scan::kMore) return scan;
        if (scan == Scan::kBad) {
          ++at_;
          continue;
        }
      }
      out = {begin, static_cast<size_t>(at_ - begin)};
      ++at_;
      return Scan::kOk;
    }
  }

  // An array or object that is kept as text.
  Scan nested() {
    int depth = 0;
    while (true) {
      at_ = find_structure(at_, end_);
      if (at_ >= end_) return Scan::kMore;
      const char c = *at_;
      if (c == '"') {
        std::string_view ignored;
        bool is_escaped = false;
        if (const Scan scan = plain_string(ignored, is_escaped); scan != Scan::kOk) return scan;
      } else {
        ++at_;
        if (c == '{' || c == '[') {
          if (++depth > kDepthMax) return Scan::kDeep;
        } else if (--depth == 0) {
          return Scan::kOk;
        }
      }
    }
  }

  // Inside nested values no rule tells a stray quotation mark.
  Scan plain_string(std::string_view& out, bool& is_escaped) {
    const bool was_lenient = is_lenient_;
    is_lenient_ = false;
    const Scan scan = string(out, is_escaped, false);
    is_lenient_ = was_lenient;
    return scan;
  }

  Scan value(JsonField& field) {
    const char c = *at_;
    if (c == '"') {
      field.type = JsonType::kString;
      return string(field.value, field.is_escaped, false);
    }
    const char* const begin = at_;
    if (c == '[' || c == '{') {
      field.type = c == '[' ? JsonType::kArray : JsonType::kObject;
      if (const Scan scan = nested(); scan != Scan::kOk) return scan;
      field.value = {begin, static_cast<size_t>(at_ - begin)};
      return Scan::kOk;
    }
    while (at_ < end_ && *at_ != ',' && *at_ != '}' && !is_blank(*at_)) {
      if (*at_ == '"' || *at_ == '{' || *at_ == '[' || *at_ == ']') return Scan::kBad;
      ++at_;
    }
    if (at_ >= end_) return Scan::kMore;
    if (at_ == begin) return Scan::kBad;
    field.value = {begin, static_cast<size_t>(at_ - begin)};
    const bool is_number = (c >= '0' && c <= '9') || (c == '-' && begin[1] != 'I');
    field.type = is_number ? JsonType::kNumber : JsonType::kOther;
    return Scan::kOk;
  }

  const char* at_;
  const char* const end_;
  bool is_lenient_;
};

}  // namespace

Scan scan_object(const char*& at, const char* end, JsonObject& out, ScanRules rules) {
  out.fields.clear();
  out.arguments.clear();
  Scanner scanner(at, end, rules);
  const Scan scan = scanner.members(out.fields, &out.arguments);
  at = scanner.at();
  // A backslash at the very end makes the scanner step one byte too far.
  return scan == Scan::kOk && at > end ? Scan::kMore : scan;
}

}  // namespace forebay::ingest
