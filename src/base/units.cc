#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace forebay::base {
namespace {

std::string three_digits(double value, std::string_view unit) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

std::string scaled(double bytes, double base, std::span<const std::string_view> units) {
  if (!std::isfinite(bytes)) return "-";
  size_t i = 0;
  while (std::abs(bytes) >= base && i + 1 < units.size()) {
    bytes /= base;
    ++i;
  }
  if (i == 0) return fmt::format("{:.0f} {}", bytes, units[0]);
  return three_digits(bytes, units[i]);
}

constexpr std::array<std::string_view, 6> kDecimal{"B", "kB", "MB", "GB", "TB", "PB"};
constexpr std::array<std::string_view, 6> kBinary{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kByteUnits[] = {
    {"", 1},      {"b", 1},        {"k", 1e3},  {"kb", 1e3},  {"kib", 0x1p10}, {"m", 1e6},
    {"mb", 1e6},  {"mib", 0x1p20}, {"g", 1e9},  {"gb", 1e9},  {"gib", 0x1p30}, {"t", 1e12},
    {"tb", 1e12}, {"tib", 0x1p40}, {"p", 1e15}, {"pb", 1e15}, {"pib", 0x1p50}};

constexpr Unit kTimeUnits[] = {{"", 1e9},  {"ns", 1},     {"us", 1e3},  {"ms", 1e6},
                               {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};

// Splits "1.5 GB" into 1.5 and the factor of the unit.
Result<double> number_with_unit(std::string_view text, std::span<const Unit> units,
                                std::string_view kind) {
  const std::string_view trimmed = trim(text);
  double value = 0;
  const auto [end, status] =
      std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
  if (status != std::errc() || !std::isfinite(value))
    return fail(ErrorCode::kInvalidArgument, "'{}' is not a {}", text, kind);
  const size_t used = static_cast<size_t>(end - trimmed.data());
  const std::string unit = to_lower(trim(trimmed.substr(used)));
  for (const Unit& u : units)
    if (unit == u.name) return value * u.factor;
  return fail(ErrorCode::kInvalidArgument, "'{}' is not a {}: unknown unit '{}'", text, kind, unit);
}

}  // namespace

std::string format_bytes(double bytes) {
  return scaled(bytes, 1000, kDecimal);
}
std::string format_bytes_per_second(double rate) {
  return scaled(rate, 1000, kDecimal) + "/s";
}
std::string format_memory(double bytes) {
  return scaled(bytes, 1024, kBinary);
}

std::string format_seconds(double seconds) {
  const double magnitude = std::abs(seconds);
  if (!std::isfinite(seconds)) return "-";
  if (magnitude >= 3600)
    return fmt::format("{} h {:02} min", static_cast<int64_t>(magnitude / 3600),
                       static_cast<int64_t>(magnitude / 60) % 60);
  if (magnitude >= 120)
    return fmt::format("{} min {:02} s", static_cast<int64_t>(magnitude / 60),
                       static_cast<int64_t>(magnitude) % 60);
  if (magnitude >= 1) return three_digits(seconds, "s");
  if (magnitude >= 1e-3) return three_digits(seconds * 1e3, "ms");
  if (magnitude >= 1e-6) return three_digits(seconds * 1e6, "us");
  return fmt::format("{:.0f} ns", seconds * 1e9);
}

std::string format_count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), " ");
  return digits;
}

std::string format_counted(uint64_t count, std::string_view plural) {
  std::string words(plural);
  if (count == 1 && plural.ends_with('s')) {
    const bool is_longer = plural.ends_with("sses") || plural.ends_with("tches");
    words.resize(words.size() - (is_longer ? 2 : 1));
    if (plural.ends_with("ies")) words.replace(words.size() - 2, 2, "y");
  }
  return fmt::format("{} {}", format_count(count), words);
}

Result<uint64_t> parse_bytes(std::string_view text) {
  const double bytes = FB_TRY(number_with_unit(text, kByteUnits, "size"));
  if (bytes < 0) return fail(ErrorCode::kInvalidArgument, "'{}' is negative; a size is not", text);
  if (bytes >= 0x1p63) return fail(ErrorCode::kInvalidArgument, "'{}' is more than 8 EiB", text);
  return static_cast<uint64_t>(bytes);
}

Result<uint64_t> parse_bytes_per_second(std::string_view text) {
  const std::string_view rate = trim(text);
  return parse_bytes(rate.ends_with("/s") ? rate.substr(0, rate.size() - 2) : rate);
}

Result<int64_t> parse_duration_ns(std::string_view text) {
  const double ns = FB_TRY(number_with_unit(text, kTimeUnits, "duration"));
  if (ns < 0) return fail(ErrorCode::kInvalidArgument, "'{}' is negative; a time is not", text);
  if (ns >= 0x1p62) return fail(ErrorCode::kInvalidArgument, "'{}' is longer than a century", text);
  return static_cast<int64_t>(ns);
}

Result<double> parse_fraction(std::string_view text) {
  const std::string_view trimmed = trim(text);
  const bool percent = !trimmed.empty() && trimmed.back() == '%';
  const double value =
      FB_TRY(parse_double(percent ? trimmed.substr(0, trimmed.size() - 1) : trimmed));
  return percent ? value / 100 : value;
}

Result<double> parse_double(std::string_view text) {
  const std::string_view trimmed = trim(text);
  double value = 0;
  const auto [end, status] =
      std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
  if (trimmed.empty() || status != std::errc() || end != trimmed.data() + trimmed.size())
    return fail(ErrorCode::kInvalidArgument, "'{}' is not a number", text);
  return value;
}

Result<int64_t> parse_int(std::string_view text) {
  const std::string_view trimmed = trim(text);
  int64_t value = 0;
  const auto [end, status] =
      std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
  if (trimmed.empty() || status != std::errc() || end != trimmed.data() + trimmed.size())
    return fail(ErrorCode::kInvalidArgument, "'{}' is not a whole number", text);
  return value;
}

}  // namespace forebay::base
