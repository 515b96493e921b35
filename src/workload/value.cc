#include "workload/value.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "workload/distribution.h"

namespace forebay::workload {

namespace {

constexpr double kUnlimited = 0x1p62;
constexpr std::string_view kColumnTypes =
    "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bool";
constexpr size_t kTextBytesMax = 4096;  // longer than any path

Error wrong(std::string_view expected, const Node& node) {
  return fail(ErrorCode::kInvalidArgument, "must be {}, not {}", expected, node.flow_text());
}

bool is_nothing(const Node& node) {
  return node.kind == Node::Kind::kNull ||
         (node.kind == Node::Kind::kScalar && node.text == "None");
}

Result<bool> read_bool(const Node& node) {
  const std::string word = base::to_lower(node.text);
  if (node.kind == Node::Kind::kScalar) {
    if (word == "true" || word == "yes" || word == "on") return true;
    if (word == "false" || word == "no" || word == "off") return false;
  }
  return wrong("true or false", node);
}

// YAML 1.1 allows "1_000" and "+3". A leading zero would mean octal there and decimal elsewhere, so
// it is no number here.
std::optional<std::string> number_text(const Node& node) {
  if (node.kind != Node::Kind::kScalar) return std::nullopt;
  std::string text;
  for (const char c : base::trim(node.text)) {
    if (c != '_') text += c;
  }
  if (!text.empty() && text.front() == '+') text.erase(0, 1);
  if (text.empty() || text.front() == '+') return std::nullopt;
  const size_t digits = text.front() == '-' ? 1 : 0;
  if (text.size() > digits + 1 && text[digits] == '0' && text[digits + 1] >= '0' &&
      text[digits + 1] <= '9')
    return std::nullopt;
  return text;
}

template <class T>
std::optional<T> exact(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> read_number(const Node& node) {
  const auto text = number_text(node);
  if (!text) return std::nullopt;
  const auto value = exact<double>(*text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

bool is_within(double value, const Limits& limits) {
  return value <= limits.high &&
         (limits.is_low_excluded ? value > limits.low : value >= limits.low);
}

std::string expectation(Type type, const Limits& limits) {
  const std::string range = range_text(type, limits);
  return range.empty() ? std::string(type_name(type))
                       : fmt::format("{} ({})", type_name(type), range);
}

// Whole numbers, also written as 64.0 or 1e6; bytes also as "4MiB".
Result<uint64_t> read_count(Type type, const Limits& limits, const Node& node) {
  const std::string expected = expectation(type, limits);
  std::optional<uint64_t> value;
  if (const auto text = number_text(node)) {
    value = exact<uint64_t>(*text);
    const auto number = exact<double>(*text);
    if (!value && number && *number == std::floor(*number) && *number >= 0 && *number <= 0x1p62)
      value = static_cast<uint64_t>(*number);
  }
  const bool is_bytes = type == Type::kWholeBytes || type == Type::kOptionalBytes;
  if (!value && is_bytes && node.kind == Node::Kind::kScalar) {
    const auto bytes = base::parse_bytes(node.text);
    if (bytes.ok()) value = *bytes;
  }
  if (!value || !is_within(static_cast<double>(*value), limits)) return wrong(expected, node);
  return *value;
}

Result<double> read_real(Type type, const Limits& limits, const Node& node) {
  std::optional<double> value = read_number(node);
  if (!value && node.kind == Node::Kind::kScalar && type == Type::kBytes) {
    const auto bytes = base::parse_bytes(node.text);
    if (bytes.ok()) value = static_cast<double>(*bytes);
  }
  // Only with a unit: what is no number must not become seconds by another parser's rules.
  if (!value && node.kind == Node::Kind::kScalar && type == Type::kSeconds && !node.text.empty() &&
      node.text.back() >= 'a') {
    const auto ns = base::parse_duration_ns(node.text);
    if (ns.ok()) value = static_cast<double>(*ns) / 1e9;
  }
  if (!value || !is_within(*value, limits)) return wrong(expectation(type, limits), node);
  return *value;
}

Result<std::string> read_choice(const Limits& limits, const Node& node) {
  // YAML 1.1 reads a bare `off` as false, so tools that rewrite YAML turn "off" into False.
  const auto words = base::split(limits.choices, ' ');
  const std::string text = node.kind == Node::Kind::kNull ? "null" : node.text;
  for (const std::string_view word : words) {
    if (text == word) return std::string(word);
    if (word == "off" && base::to_lower(text) == "false" && node.kind == Node::Kind::kScalar)
      return std::string(word);
    if (word == "none" && is_nothing(node)) return std::string(word);
  }
  std::string hint;
  if (node.kind == Node::Kind::kScalar && text != "on") {  // "off" is near, and the opposite
    const std::string nearest = base::nearest_name(text, words);
    if (!nearest.empty()) hint = fmt::format("; did you mean '{}'?", nearest);
  }
  return fail(ErrorCode::kInvalidArgument, "must be {}, not {}{}",
              range_text(Type::kChoice, limits), node.flow_text(), hint);
}

Result<std::string> read_text(const Node& node) {
  if (is_nothing(node)) return std::string();
  if (node.kind != Node::Kind::kScalar) return wrong("text", node);
  if (node.text.size() > kTextBytesMax)
    return fail(ErrorCode::kInvalidArgument, "must be text of at most {} bytes, not {}",
                kTextBytesMax, node.text.size());
  if (node.text.find('\0') != std::string::npos)
    return fail(ErrorCode::kInvalidArgument, "must be text without NUL characters");
  if (node.text.find("${{") != std::string::npos || node.text.find("${") != std::string::npos)
    return fail(
        ErrorCode::kInvalidArgument,
        "holds an interpolation (${{...}}), which is not resolved here; write the value: {}",
        node.text);
  return node.text;
}

Result<std::vector<uint64_t>> read_counts(const Limits& limits, const Node& node) {
  std::vector<uint64_t> counts;
  if (is_nothing(node)) return counts;
  if (node.kind != Node::Kind::kList) return wrong("a list of whole numbers", node);
  for (const Node& item : node.items) {
    counts.push_back(FB_TRY(read_count(Type::kCount, limits, item).context("each item")));
  }
  return counts;
}

Result<ParquetColumn> read_column(const Node& node) {
  if (node.kind != Node::Kind::kMap) return wrong("{name, dtype, size, read}", node);
  ParquetColumn column;
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& key = node.keys[i];
    const Node& item = node.items[i];
    if (key == "name") {
      column.name = FB_TRY(read_text(item).context(key));
    } else if (key == "dtype") {
      column.dtype = FB_TRY(read_choice({.choices = kColumnTypes}, item).context(key));
    } else if (key == "size") {
      const Limits sizes{.low = 1, .high = 0x1p32};
      column.size = FB_TRY(read_count(Type::kCount, sizes, item).context(key));
    } else if (key == "read") {
      column.is_read = FB_TRY(read_bool(item).context(key));
    } else {
      const std::string_view known[] = {"name", "dtype", "size", "read"};
      return fail(ErrorCode::kInvalidArgument, "{}",
                  base::unknown_name_message("part of a column", key, known));
    }
  }
  if (column.name.empty()) return wrong("a column with a name", node);
  return column;
}

Result<std::vector<ParquetColumn>> read_columns(const Node& node) {
  std::vector<ParquetColumn> columns;
  if (is_nothing(node)) return columns;
  if (node.kind != Node::Kind::kList) return wrong("a list of {name, dtype, size, read}", node);
  std::set<std::string> names;
  for (const Node& item : node.items) {
    columns.push_back(FB_TRY(read_column(item).context("each item")));
    if (!names.insert(columns.back().name).second)
      return fail(ErrorCode::kInvalidArgument, "has two columns named '{}'", columns.back().name);
  }
  return columns;
}

std::string columns_text(const std::vector<ParquetColumn>& columns) {
  std::string text;
  for (const ParquetColumn& column : columns) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{{name: {}, dtype: {}, size: {}, read: {}}}",
                        quoted_if_needed(column.name), column.dtype, column.size, column.is_read);
  }
  return "[" + text + "]";
}

// Also "163MB/s".
Result<double> read_rate(const Node& node) {
  if (node.kind == Node::Kind::kScalar && node.text.ends_with("/s")) {
    const auto rate = base::parse_bytes_per_second(node.text);
    if (rate.ok()) return static_cast<double>(*rate);
  }
  return read_real(Type::kBytes, {}, node);
}

constexpr std::string_view kPlacesExpected =
    "a list of folders or {place, storage, bytes_per_second_max, keep}";

Result<CheckpointPlace> read_place(const Node& node) {
  CheckpointPlace place;
  if (node.kind == Node::Kind::kScalar) place.place = FB_TRY(read_text(node));
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& key = node.keys[i];
    const Node& item = node.items[i];
    if (key == "place") {
      place.place = FB_TRY(read_text(item).context(key));
    } else if (key == "storage") {
      place.storage = FB_TRY(read_text(item).context(key));
    } else if (key == "bytes_per_second_max") {
      place.bytes_per_second_max = FB_TRY(read_rate(item).context(key));
    } else if (key == "keep") {
      place.keep = FB_TRY(read_count(Type::kCount, {.high = 1e9}, item).context(key));
    } else {
      const std::string_view known[] = {"place", "storage", "bytes_per_second_max", "keep"};
      return fail(ErrorCode::kInvalidArgument, "{}",
                  base::unknown_name_message("part of a tier", key, known));
    }
  }
  if (place.place.empty()) return wrong("a folder or s3://BUCKET/PREFIX", node);
  return place;
}

Result<std::vector<CheckpointPlace>> read_places(const Node& node) {
  std::vector<CheckpointPlace> places;
  if (is_nothing(node)) return places;
  if (node.kind != Node::Kind::kList) return wrong(kPlacesExpected, node);
  std::set<std::string> names;
  for (const Node& item : node.items) {
    places.push_back(FB_TRY(read_place(item).context("each item")));
    if (!names.insert(places.back().place).second)
      return fail(ErrorCode::kInvalidArgument, "has {} twice", places.back().place);
  }
  return places;
}

std::string places_text(const std::vector<CheckpointPlace>& places) {
  std::string text;
  for (const CheckpointPlace& place : places) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{{place: {}, storage: {}, bytes_per_second_max: {}, keep: {}}}",
                        quoted_if_needed(place.place), quoted_if_needed(place.storage),
                        place.bytes_per_second_max, place.keep);
  }
  return "[" + text + "]";
}

bool means_unset(Type type, const Node& node) {
  if (is_nothing(node)) return true;
  return type == Type::kOptionalCount && node.kind == Node::Kind::kScalar && node.text == "-1";
}

}  // namespace

Result<Value> read_value(Type type, const Limits& limits, const Node& node) {
  Value value;
  value.is_null = false;
  switch (type) {
    case Type::kBool:
      value.flag = FB_TRY(read_bool(node));
      break;
    case Type::kOptionalCount:
    case Type::kOptionalBytes:
      if (means_unset(type, node)) {
        value.is_null = true;
        break;
      }
      [[fallthrough]];
    case Type::kCount:
    case Type::kWholeBytes:
      value.count = FB_TRY(read_count(type, limits, node));
      break;
    case Type::kInteger: {
      const auto text = number_text(node);
      const auto integer = text ? exact<int64_t>(*text) : std::nullopt;
      if (!integer || !is_within(static_cast<double>(*integer), limits))
        return wrong(expectation(type, limits), node);
      value.integer = *integer;
      break;
    }
    case Type::kBytes:
    case Type::kFraction:
    case Type::kSeconds:
      value.number = FB_TRY(read_real(type, limits, node));
      break;
    case Type::kDistribution:
      value.distribution = FB_TRY(read_distribution(limits, node));
      break;
    case Type::kText:
      value.text = FB_TRY(read_text(node));
      break;
    case Type::kChoice:
      value.text = FB_TRY(read_choice(limits, node));
      break;
    case Type::kCounts:
      value.counts = FB_TRY(read_counts(limits, node));
      break;
    case Type::kColumns:
      value.columns = FB_TRY(read_columns(node));
      break;
    case Type::kPlaces:
      value.places = FB_TRY(read_places(node));
      break;
    case Type::kTree:
      value.is_null = is_nothing(node);
      if (!value.is_null) value.text = node.flow_text();
      break;
  }
  return value;
}

std::string value_text(Type type, const Value& value) {
  switch (type) {
    case Type::kBool:
      return value.flag ? "true" : "false";
    case Type::kOptionalCount:
      return value.is_null ? "-1" : fmt::format("{}", value.count);
    case Type::kOptionalBytes:
      return value.is_null ? "null" : fmt::format("{}", value.count);
    case Type::kCount:
    case Type::kWholeBytes:
      return fmt::format("{}", value.count);
    case Type::kInteger:
      return fmt::format("{}", value.integer);
    case Type::kBytes:
    case Type::kFraction:
    case Type::kSeconds:
      return fmt::format("{}", value.number);
    case Type::kDistribution:
      return distribution_yaml(value.distribution);
    case Type::kText:
      return quoted_if_needed(value.text);
    case Type::kChoice:
      return value.text;
    case Type::kCounts:
      return fmt::format("[{}]", fmt::join(value.counts, ", "));
    case Type::kColumns:
      return columns_text(value.columns);
    case Type::kPlaces:
      return places_text(value.places);
    case Type::kTree:
      return value.is_null ? "null" : value.text;
  }
  return "";
}

std::string range_text(Type type, const Limits& limits) {
  if (type == Type::kChoice) {
    return fmt::format("{}", fmt::join(base::split(limits.choices, ' '), " | "));
  }
  if (type == Type::kBool || type == Type::kText || type == Type::kColumns ||
      type == Type::kPlaces || type == Type::kTree)
    return "";
  const auto number = [](double value) {
    // Whole numbers in full: "1000000", never "1e+06".
    return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
  };
  if (limits.high >= kUnlimited) {
    return fmt::format("{} {}", limits.is_low_excluded ? ">" : ">=", number(limits.low));
  }
  if (limits.is_low_excluded)
    return fmt::format("> {}, <= {}", number(limits.low), number(limits.high));
  return fmt::format("{}..{}", number(limits.low), number(limits.high));
}

std::string_view type_name(Type type) {
  switch (type) {
    case Type::kBool:
      return "true or false";
    case Type::kCount:
      return "a whole number";
    case Type::kOptionalCount:
      return "a whole number or -1 for none";
    case Type::kInteger:
      return "a whole number";
    case Type::kBytes:
    case Type::kWholeBytes:
      return "bytes";
    case Type::kOptionalBytes:
      return "bytes or null";
    case Type::kFraction:
      return "a fraction";
    case Type::kSeconds:
      return "seconds";
    case Type::kDistribution:
      return "seconds or a distribution";
    case Type::kText:
      return "text";
    case Type::kChoice:
      return "one of";
    case Type::kCounts:
      return "a list of whole numbers";
    case Type::kColumns:
      return "a list of {name, dtype, size, read}";
    case Type::kPlaces:
      return kPlacesExpected;
    case Type::kTree:
      return "anything";
  }
  return "";
}

}  // namespace forebay::workload
