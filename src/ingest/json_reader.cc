#include "ingest/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "ingest/json_scan.h"

namespace forebay::ingest {
namespace {

constexpr size_t kWindowBytes = 256 << 10;
constexpr size_t kWindowBytesMax = 64 << 20;
constexpr ptrdiff_t kLenientBytesMax = 256 << 10;
constexpr size_t kHeaderBytesMax = 1 << 20;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// The four digits behind "\u"; nothing when they are none.
std::optional<uint32_t> hex4(std::string_view text) {
  uint32_t code = 0;
  if (text.size() < 4) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + 4, code, 16);
  if (error != std::errc() || end != text.data() + 4) return std::nullopt;
  return code;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'u') {
      const auto code = hex4(text.substr(i + 1));
      if (!code) {
        out += "\\u";
        continue;
      }
      i += 4;
      uint32_t value = *code;
      if (value >= 0xd800 && value < 0xdc00 && text.substr(i + 1, 2) == "\\u") {
        const auto low = hex4(text.substr(i + 3));
        if (low && *low >= 0xdc00 && *low < 0xe000) {
          value = 0x10000 + ((value - 0xd800) << 10) + (*low - 0xdc00);
          i += 6;
        }
      }
      if (value >= 0xd800 && value < 0xe000) value = 0xfffd;
      append_utf8(out, value);
      continue;
    }
    static constexpr std::string_view kFrom = "nrtbf", kTo = "\n\r\t\b\f";
    const size_t known = kFrom.find(c);
    out += known == std::string_view::npos ? c : kTo[known];
  }
  return out;
}

}  // namespace

JsonReader::JsonReader(ByteStream& stream, Account& account)
    : stream_(stream), account_(account), window_(kWindowBytes + kScanPadding) {}

Result<bool> JsonReader::refill() {
  if (is_ended_) return false;
  if (at_ > 0) {
    std::memmove(window_.data(), window_.data() + at_, end_ - at_);
    consumed_ += at_;
    end_ -= at_;
    at_ = 0;
  }
  if (end_ + kScanPadding == window_.size()) window_.resize(end_ * 2 + kScanPadding);
  const size_t room = window_.size() - kScanPadding - end_;
  auto got = stream_.read(std::as_writable_bytes(std::span(window_)).subspan(end_, room));
  if (!got.ok()) {
    is_ended_ = true;
    account_.damage = got.error().message;
    return false;
  }
  end_ += *got;
  std::memset(window_.data() + end_, 0, kScanPadding);
  if (*got == 0) is_ended_ = true;
  return *got > 0;
}

Result<bool> JsonReader::skip_blanks(char also) {
  while (true) {
    while (at_ < end_ && (is_blank(window_[at_]) || window_[at_] == also)) ++at_;
    if (at_ < end_) return true;
    if (!FB_TRY(refill())) return false;
  }
}

Status JsonReader::start() {
  FB_TRY(refill());
  if (end_ >= 3 && std::memcmp(window_.data(), "\xef\xbb\xbf", 3) == 0) at_ = 3;
  if (!FB_TRY(skip_blanks())) {
    state_ = State::kEnd;
    return {};
  }
  state_ = State::kElements;
  if (window_[at_] == '[') {
    ++at_;
    return {};
  }
  if (window_[at_] != '{') return {};
  // A line of its own, or the object that holds the array: events have a phase.
  JsonObject object;
  const char* at = window_.data() + at_;
  const char* const end = window_.data() + end_;
  if (scan_object(at, end, object, ScanRules::kStrict) == Scan::kOk) {
    for (const JsonField& field : object.fields) {
      if (field.key == "ph") return {};
    }
  }
  ++at_;
  is_wrapped_ = true;
  state_ = State::kMembers;
  return {};
}

// The text of the value here; nothing when it is too large to keep.
Result<std::optional<std::string>> JsonReader::value_text() {
  std::string text;
  bool is_kept = true, in_string = false, is_escape = false;
  int depth = 0;
  while (true) {
    if (at_ == end_ && !FB_TRY(refill())) break;
    const char c = window_[at_];
    if (!in_string && depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    ++at_;
    if (is_kept) text += c;
    if (text.size() > kHeaderBytesMax) {
      is_kept = false;
      text.clear();
    }
    if (is_escape) {
      is_escape = false;
    } else if (in_string) {
      is_escape = c == '\\';
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  while (!text.empty() && is_blank(text.back())) text.pop_back();
  if (!is_kept) return std::optional<std::string>();
  return std::optional<std::string>(std::move(text));
}

bool JsonReader::is_deep() const {
  int depth = 0;
  for (size_t at = at_; at < end_ && depth <= kDepthMax; ++at) {
    if (window_[at] == '[' || window_[at] == '{') {
      ++depth;
    } else if (!is_blank(window_[at])) {
      break;
    }
  }
  return depth > kDepthMax;
}

JsonReader::Found JsonReader::cut() {
  if (!account_.damage) account_.damage = "the file is cut";
  return Found::kEnd;
}

Result<JsonReader::Found> JsonReader::member(std::string_view array) {
  if (!FB_TRY(skip_blanks(','))) return cut();
  if (window_[at_] == '}') return Found::kEnd;
  if (window_[at_] != '"') {
    account_.damage = "what follows is no JSON";
    return Found::kEnd;
  }
  ++at_;
  std::string key;
  while (true) {
    if (at_ == end_ && !FB_TRY(refill())) return cut();
    const char c = window_[at_++];
    if (c == '"') break;
    if (key.size() < kHeaderBytesMax) key += c;
  }
  if (!FB_TRY(skip_blanks(':'))) return cut();
  if (key == array && window_[at_] == '[') {
    ++at_;
    state_ = State::kElements;
    return Found::kNo;
  }
  auto value = FB_TRY(value_text());
  if (value) header_.emplace_back(std::move(key), std::move(*value));
  return Found::kNo;
}

// Whether the "]" here ends the events: what follows ends the file, or is a member of the file's
// object that tools write behind them. Brackets inside a damaged event look much the same.
Result<bool> JsonReader::ends_array() {
  constexpr size_t kLookAheadBytes = 4096;
  while (end_ - at_ < kLookAheadBytes && FB_TRY(refill())) {
  }
  const std::string_view rest(window_.data() + at_ + 1, end_ - at_ - 1);
  const auto blank_end = [&](size_t from) {
    while (from < rest.size() && is_blank(rest[from])) ++from;
    return from;
  };
  size_t next = blank_end(0);
  if (next == rest.size()) return is_ended_;
  if (rest[next] == '}') return is_ended_ && blank_end(next + 1) == rest.size();
  if (rest[next] != ',') return false;
  next = blank_end(next + 1);
  static constexpr std::array<std::string_view, 16> kBehind{"\"traceName\"",
                                                            "\"displayTimeUnit\"",
                                                            "\"baseTimeNanoseconds\"",
                                                            "\"INFO\"",
                                                            "\"ERROR\"",
                                                            "\"WARNING\"",
                                                            "\"USER_INFO\"",
                                                            "\"otherData\"",
                                                            "\"distributedInfo\"",
                                                            "\"metadata\"",
                                                            "\"stackFrames\"",
                                                            "\"schemaVersion\"",
                                                            "\"deviceProperties\"",
                                                            "\"samples\"",
                                                            "\"viztracer_metadata\"",
                                                            "\"file_info\""};
  return std::any_of(kBehind.begin(), kBehind.end(),
                     [&](std::string_view key) { return rest.substr(next).starts_with(key); });
}

Result<bool> JsonReader::resynchronise() {
  ++at_;
  while (true) {
    while (at_ < end_ && window_[at_] != '{' && window_[at_] != ']') ++at_;
    if (at_ == end_) {
      if (!FB_TRY(refill())) return false;
      continue;
    }
    if (window_[at_] == ']') {
      if (FB_TRY(ends_array())) return true;
      ++at_;
      continue;
    }
    // An event stands behind a comma, a bracket or a line's end; the braces of "args" stand behind
    // a colon.
    size_t back = at_;
    while (back > 0 && (window_[back - 1] == ' ' || window_[back - 1] == '\t')) --back;
    const char before = back > 0 ? window_[back - 1] : '\n';
    if (before == ',' || before == '[' || before == '\n' || before == '\r') return true;
    ++at_;
  }
}

Result<JsonReader::Found> JsonReader::element(JsonObject& out) {
  while (true) {
    if (!FB_TRY(skip_blanks(','))) {
      return is_wrapped_ ? cut() : Found::kEnd;
    }
    if (window_[at_] == ']') {
      ++at_;
      state_ = is_wrapped_ ? State::kMembers : State::kEnd;
      return Found::kNo;
    }
    const char* const begin = window_.data() + at_;
    const char* const end = window_.data() + end_;
    Scan scan = Scan::kBad;
    if (*begin == '{') {
      const char* at = begin;
      scan = scan_object(at, end, out, ScanRules::kStrict);
      if (scan == Scan::kBad) {
        // Bounded: where no end is found the search would cost the whole window for each event.
        at = begin;
        const bool is_long = end - begin > kLenientBytesMax;
        scan = scan_object(at, is_long ? begin + kLenientBytesMax : end, out, ScanRules::kLenient);
        if (scan == Scan::kOk) account_.repair("events with quotation marks not escaped");
        if (scan == Scan::kMore && is_long) scan = Scan::kBad;
      }
      if (scan == Scan::kOk) {
        at_ = static_cast<size_t>(at - window_.data());
        return Found::kYes;
      }
    }
    if (scan == Scan::kMore) {
      if (end_ - at_ < kWindowBytesMax && FB_TRY(refill())) continue;
      if (end_ - at_ < kWindowBytesMax) {
        account_.skip("cut at the end of the file");
      } else {
        account_.skip("events of more than 64 MiB");
      }
    } else if (scan == Scan::kDeep || is_deep()) {
      account_.skip("events nested deeper than 64 levels");
      if (!account_.damage && *begin == '[') {
        account_.damage = "arrays nested deeper than 64 levels where events should be";
      }
    } else {
      account_.skip("events that are no JSON");
    }
    if (!FB_TRY(resynchronise())) {
      return is_wrapped_ ? cut() : Found::kEnd;
    }
  }
}

Result<bool> JsonReader::next(std::string_view array, JsonObject& out) {
  if (state_ == State::kStart) FB_TRY(start());
  while (state_ != State::kEnd) {
    const Found found = state_ == State::kMembers ? FB_TRY(member(array)) : FB_TRY(element(out));
    if (found == Found::kYes && !out.fields.empty()) return true;
    if (found == Found::kEnd) state_ = State::kEnd;
  }
  return false;
}

std::optional<JsonObject> parse_object(std::string_view text) {
  // The scanner reads a little beyond the end; the text stays the caller's.
  JsonObject out;
  std::string padded(text);
  padded.append(kScanPadding, '\0');
  const char* at = padded.data();
  if (scan_object(at, padded.data() + text.size(), out, ScanRules::kStrict) != Scan::kOk)
    return std::nullopt;
  const auto moved = [&](std::string_view view) {
    return view.data() == nullptr
               ? view
               : text.substr(static_cast<size_t>(view.data() - padded.data()), view.size());
  };
  for (auto* fields : {&out.fields, &out.arguments}) {
    for (JsonField& field : *fields) {
      field.key = moved(field.key);
      field.value = moved(field.value);
    }
  }
  return out;
}

std::string string_of(const JsonField& field) {
  return clean_text(field.is_escaped ? unescaped(field.value) : std::string(field.value));
}

std::optional<double> number_of(const JsonField& field) {
  std::string_view text = field.value;
  while (!text.empty() && is_blank(text[0])) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int64_t> integer_of(const JsonField& field) {
  std::string_view text = field.value;
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) text.remove_prefix(2);
  int64_t value = 0;
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, value, is_hex ? 16 : 10);
  if (error == std::errc() && end == stop && !text.empty()) return value;
  if (is_hex || field.type == JsonType::kOther) return std::nullopt;
  const auto real = number_of(field);
  if (!real || std::abs(*real) > 9e18) return std::nullopt;
  return static_cast<int64_t>(*real);
}

std::optional<int64_t> nanoseconds_of(const JsonField& field) {
  std::string_view text = field.value;
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  size_t i = 0;
  int64_t value = 0;
  while (i < text.size() && i < 16 && is_digit(text[i])) value = value * 10 + (text[i++] - '0');
  if (i == 0) return std::nullopt;
  int64_t fraction = 0;
  if (i < text.size() && text[i] == '.') {
    int digits = 0;
    for (++i; i < text.size() && is_digit(text[i]); ++i, ++digits) {
      if (digits < 3) fraction = fraction * 10 + (text[i] - '0');
      if (digits == 3 && text[i] >= '5') ++fraction;
    }
    for (; digits < 3; ++digits) fraction *= 10;
  }
  if (i != text.size()) {
    const auto real = number_of(field);  // "1.5e6", or more digits than time has
    if (!real || std::abs(*real) > 9e15) return std::nullopt;
    return static_cast<int64_t>(std::llround(*real * 1000));
  }
  if (value > 9'000'000'000'000'000) return std::nullopt;
  value = value * 1000 + fraction;
  return is_negative ? -value : value;
}

}  // namespace forebay::ingest
