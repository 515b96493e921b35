#include "ingest/line_reader.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace forebay::ingest {
namespace {

constexpr size_t kWindowBytes = 1 << 20;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

LineReader::LineReader(ByteStream& stream, Account& account)
    : stream_(stream), account_(account), window_(kWindowBytes) {}

bool LineReader::refill() {
  if (is_ended_) return false;
  std::memmove(window_.data(), window_.data() + at_, end_ - at_);
  end_ -= at_;
  at_ = 0;
  const auto got =
      stream_.read(std::as_writable_bytes(std::span(window_)).subspan(end_, window_.size() - end_));
  if (!got.ok()) {
    account_.damage = got.error().message;
    is_ended_ = true;
    return false;
  }
  is_ended_ = *got == 0;
  end_ += *got;
  return *got > 0;
}

bool LineReader::next(std::string_view& out) {
  while (true) {
    const char* const begin = window_.data() + at_;
    const auto* newline = static_cast<const char*>(std::memchr(begin, '\n', end_ - at_));
    if (newline == nullptr) {
      const bool is_full = at_ == 0 && end_ == window_.size();
      if (!is_full && refill()) continue;
      if (at_ == end_) return false;
      out = {window_.data() + at_, end_ - at_};
      at_ = end_;
      if (!is_full) return !is_skipping_;
      // The rest of the line is no line of its own.
      const bool was_skipping = is_skipping_;
      is_skipping_ = true;
      if (was_skipping) continue;
      account_.repair("lines of more than 1 MiB: cut");
      return true;
    }
    out = {begin, static_cast<size_t>(newline - begin)};
    at_ += out.size() + 1;
    if (is_skipping_) {
      is_skipping_ = false;
      continue;
    }
    if (out.ends_with('\r')) out.remove_suffix(1);
    return true;
  }
}

std::string_view take_word(std::string_view& text) {
  size_t begin = 0;
  while (begin < text.size() && (text[begin] == ' ' || text[begin] == '\t')) ++begin;
  size_t end = begin;
  while (end < text.size() && text[end] != ' ' && text[end] != '\t') ++end;
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

bool to_number(std::string_view text, double& out) {
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, out);
  return error == std::errc() && end == stop && std::isfinite(out);
}

bool to_integer(std::string_view text, int64_t& out) {
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, out);
  return error == std::errc() && end == stop;
}

bool to_nanoseconds(std::string_view text, int64_t& out) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  size_t i = 0;
  int64_t value = 0;
  while (i < text.size() && i < 10 && is_digit(text[i])) value = value * 10 + (text[i++] - '0');
  if (i == 0) return false;
  if (value > 9'000'000'000) return false;  // beyond what nanoseconds can count
  value *= 1'000'000'000;
  if (i < text.size() && text[i] == '.') {
    int64_t unit = 100'000'000;
    for (++i; i < text.size() && is_digit(text[i]); ++i, unit /= 10)
      value += (text[i] - '0') * unit;
  }
  if (i != text.size()) {
    double real = 0;
    if (!to_number(text, real) || std::abs(real) > 2e9) return false;
    value = std::llround(real * 1e9);
  }
  out = is_negative ? -value : value;
  return true;
}

}  // namespace forebay::ingest
