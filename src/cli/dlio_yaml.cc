#include "cli/dlio_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/text.h"

namespace forebay::cli {
namespace {

using workload::Node;

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "true", "True" and "TRUE", but not "tRue".
template <size_t N>
bool is_word_of(std::string_view text, const std::array<std::string_view, N>& words) {
  const std::string lower = base::to_lower(text);
  if (!is_one_of(lower, words)) return false;
  const bool is_lower = text == lower;
  const bool has_small =
      std::any_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  const bool is_title = text[0] != lower[0] && text.substr(1) == std::string_view(lower).substr(1);
  return is_lower || !has_small || is_title;
}

bool all_of(std::string_view text, std::string_view allowed) {
  return text.find_first_not_of(allowed) == std::string_view::npos;
}

constexpr std::string_view kDigits = "0123456789_";

bool is_integer(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text[0] == '_') return false;
  if (text.starts_with("0b")) return text.size() > 2 && all_of(text.substr(2), "01_");
  if (text.starts_with("0x"))
    return text.size() > 2 && all_of(text.substr(2), "0123456789abcdefABCDEF_");
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos)  // base 60
    return colon > 0 && text.back() != ':' && text[0] != '0' && all_of(text, "0123456789_:");
  return all_of(text, kDigits);
}

bool is_float(std::string_view text) {
  const std::string_view whole = text;
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (const std::string lower = base::to_lower(text); lower == ".inf") return true;
  if (base::to_lower(whole) == ".nan") return true;
  const size_t exponent = text.find_first_of("eE");
  const std::string_view mantissa = text.substr(0, exponent);
  if (exponent != std::string_view::npos) {
    std::string_view power = text.substr(exponent + 1);
    if (power.starts_with('-') || power.starts_with('+')) power.remove_prefix(1);
    if (power.empty() || !all_of(power, "0123456789")) return false;
  }
  const size_t point = mantissa.find('.');
  if (point == std::string_view::npos)
    return exponent != std::string_view::npos && !mantissa.empty() && mantissa[0] != '_' &&
           all_of(mantissa, kDigits);
  const std::string_view before = mantissa.substr(0, point), after = mantissa.substr(point + 1);
  const bool has_digit = !before.empty() || (!after.empty() && after[0] != '_');
  // Without digits before the point a sign makes it text.
  const bool is_signed = whole.size() != text.size();
  return has_digit && !(before.empty() && is_signed) && all_of(before, kDigits) &&
         (before.empty() || before[0] != '_') && all_of(after, kDigits);
}

// "2001-12-14", with or without a time after it.
bool is_date(std::string_view text) {
  if (text.size() < 8 || text[4] != '-') return false;
  return all_of(text.substr(0, 4), "0123456789") && all_of(text, "0123456789-:. TtZz+");
}

std::optional<double> number_of(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

// Python's repr(): the shortest digits that give the value back.
std::string python_float(double value) {
  const double size = std::fabs(value);
  if (value != 0 && (size < 1e-4 || size >= 1e16)) return fmt::format("{}", value);
  std::string text = fmt::format("{}", value);
  if (text.find('e') != std::string::npos) text = fmt::format("{:.0f}", value);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

// PyYAML's: an exponent needs a point before it to be read as a number again.
std::string yaml_float(std::string_view text) {
  std::string lower = base::to_lower(text);
  if (lower.ends_with(".inf") || lower.ends_with(".nan")) return lower;
  const auto value = number_of(text);
  if (!value) return std::string(text);
  std::string out = python_float(*value);
  const size_t exponent = out.find('e');
  if (exponent != std::string::npos && out.find('.') == std::string::npos)
    out.insert(exponent, ".0");
  return out;
}

std::string integer_text(std::string_view text) {
  if (!all_of(text, "0123456789_+-")) return std::string(text);
  std::string out(text);
  std::erase(out, '_');
  if (out.starts_with('+')) out.erase(0, 1);
  return out;
}

bool is_true_word(std::string_view text) {
  static constexpr std::array<std::string_view, 3> kTrue{"true", "yes", "on"};
  return is_one_of(base::to_lower(text), kTrue);
}

// Whether `text` can stand without quotes and is text then.
bool stands_plain(std::string_view text) {
  static constexpr std::string_view kFirst = "-?:,[]{}#&*!|>'\"%@`";
  if (text.empty() || plain_type(text) != PlainType::kText) return false;
  if (text.size() == 1 && (text[0] == 'y' || text[0] == 'n' || text[0] == 'Y' || text[0] == 'N'))
    return false;
  if (text.front() == ' ' || text.back() == ' ' || text.back() == ':') return false;
  if (kFirst.find(text[0]) != std::string_view::npos) return false;
  return text.find(": ") == std::string_view::npos && text.find(" #") == std::string_view::npos &&
         std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string quoted(std::string_view text) {
  const bool has_control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  std::string out;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (!has_control)
      out += c == '\'' ? std::string("''") : std::string(1, c);
    else if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (c == '\n' || c == '\t')
      out += c == '\n' ? "\\n" : "\\t";
    else
      out += code < 0x20 || code == 0x7f ? fmt::format("\\x{:02X}", code) : std::string(1, c);
  }
  return has_control ? fmt::format("\"{}\"", out) : fmt::format("'{}'", out);
}

std::string text_scalar(std::string_view text) {
  return stands_plain(text) ? std::string(text) : quoted(text);
}

std::string scalar(const Node& node) {
  if (node.kind == Node::Kind::kNull) return "null";
  if (node.is_quoted) return text_scalar(node.text);
  switch (plain_type(node.text)) {
    case PlainType::kNull:
      return "null";
    case PlainType::kBool:
      return is_true_word(node.text) ? "true" : "false";
    case PlainType::kInteger:
      return integer_text(node.text);
    case PlainType::kFloat:
      return yaml_float(node.text);
    case PlainType::kOther:
    case PlainType::kText:
      break;
  }
  return text_scalar(node.text);
}

bool is_block(const Node& node) {
  return (node.kind == Node::Kind::kMap || node.kind == Node::Kind::kList) && !node.items.empty();
}

std::string inline_text(const Node& node) {
  if (node.kind == Node::Kind::kMap) return "{}";
  return node.kind == Node::Kind::kList ? "[]" : scalar(node);
}

// The lines of a map or list; the first one without its indentation where `is_started` says that
// something stands before it.
void append_block(std::string& out, const Node& node, size_t indentation, bool is_started) {
  for (size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = node.items[i];
    if (i > 0 || !is_started) out.append(indentation, ' ');
    if (node.kind == Node::Kind::kList) {
      out += "- ";
      if (is_block(item))
        append_block(out, item, indentation + 2, true);
      else
        out += inline_text(item) + "\n";
      continue;
    }
    out += text_scalar(node.keys[i]) + ":";
    if (!is_block(item)) {
      out += " " + inline_text(item) + "\n";
      continue;
    }
    out += "\n";
    append_block(out, item, indentation + (item.kind == Node::Kind::kMap ? 2 : 0), false);
  }
}

}  // namespace

PlainType plain_type(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kBools{"true", "false", "yes",
                                                          "no",   "on",    "off"};
  static constexpr std::array<std::string_view, 1> kNulls{"null"};
  if (text.empty() || text == "~" || is_word_of(text, kNulls)) return PlainType::kNull;
  if (is_word_of(text, kBools)) return PlainType::kBool;
  if (is_integer(text)) return PlainType::kInteger;
  if (is_float(text)) return PlainType::kFloat;
  if (text == "=" || text == "<<" || is_date(text)) return PlainType::kOther;
  return PlainType::kText;
}

std::string dlio_yaml(const Node& node) {
  if (!is_block(node)) return inline_text(node) + "\n";
  std::string out;
  append_block(out, node, 0, false);
  return out;
}

std::string python_text(const Node& node) {
  if (node.kind == Node::Kind::kNull) return "None";
  if (node.kind != Node::Kind::kScalar) return node.flow_text();
  if (node.is_quoted) return node.text;
  switch (plain_type(node.text)) {
    case PlainType::kNull:
      return "None";
    case PlainType::kBool:
      return is_true_word(node.text) ? "True" : "False";
    case PlainType::kInteger:
      return integer_text(node.text);
    case PlainType::kFloat: {
      const auto value = number_of(node.text);
      return value ? python_float(*value) : base::to_lower(node.text).substr(1);
    }
    case PlainType::kOther:
    case PlainType::kText:
      break;
  }
  return node.text;
}

}  // namespace forebay::cli
