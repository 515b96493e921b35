#include "storage/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace forebay::storage {

Result<OptionReader> OptionReader::open(std::string_view driver, std::span<const StoreOption> table,
                                        const OptionValues& values) {
  std::vector<std::string_view> known;
  for (const StoreOption& option : table) known.push_back(option.name);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& key = values[i].first;
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      if (known.empty()) {
        return fail(ErrorCode::kInvalidArgument, "storage '{}' has no options, so not '{}' either",
                    driver, key);
      }
      return Error{
          ErrorCode::kInvalidArgument,
          base::unknown_name_message(fmt::format("option of storage '{}'", driver), key, known)};
    }
    for (size_t j = 0; j < i; ++j) {
      if (values[j].first == key) {
        return fail(ErrorCode::kInvalidArgument, "storage '{}': option '{}' is given twice", driver,
                    key);
      }
    }
  }
  return OptionReader(driver, table, values);
}

Error OptionReader::wrong(std::string_view key, const std::string& why) const {
  return fail(ErrorCode::kInvalidArgument, "storage '{}': {}={}: {}", driver_, key, text(key), why);
}

std::string_view OptionReader::text(std::string_view key) const {
  for (const auto& [name, value] : *values_) {
    if (name == key) return value;
  }
  for (const StoreOption& option : table_) {
    if (option.name == key) return option.fallback;
  }
  FB_CHECK(false && "an option that is not in the driver's table");
  return {};
}

Result<uint64_t> OptionReader::bytes(std::string_view key, uint64_t min, uint64_t max) const {
  const Result<uint64_t> value = base::parse_bytes(text(key));
  if (!value.ok()) return wrong(key, value.error().message);
  if (*value < min || *value > max) {
    return wrong(key, fmt::format("must be {} to {} bytes", min, max));
  }
  return *value;
}

Result<uint64_t> OptionReader::bytes_per_second(std::string_view key, uint64_t max) const {
  const Result<uint64_t> value = base::parse_bytes_per_second(text(key));
  if (!value.ok()) return wrong(key, value.error().message);
  if (*value > max) return wrong(key, fmt::format("must be at most {} bytes a second", max));
  return *value;
}

Result<int64_t> OptionReader::integer(std::string_view key, int64_t min, int64_t max) const {
  const Result<int64_t> value = base::parse_int(text(key));
  if (!value.ok()) return wrong(key, value.error().message);
  if (*value < min || *value > max) return wrong(key, fmt::format("must be {} to {}", min, max));
  return *value;
}

Result<double> OptionReader::number(std::string_view key, double min, double max) const {
  const Result<double> value = base::parse_double(text(key));
  if (!value.ok()) return wrong(key, value.error().message);
  if (!(*value >= min && *value <= max)) {
    return wrong(key, fmt::format("must be {} to {}", min, max));
  }
  return *value;
}

Result<int64_t> OptionReader::duration_ns(std::string_view key, int64_t max) const {
  const Result<int64_t> value = base::parse_duration_ns(text(key));
  if (!value.ok()) return wrong(key, value.error().message);
  if (*value > max) return wrong(key, fmt::format("must be at most {} h", max / kHourNs));
  return *value;
}

Result<bool> OptionReader::flag(std::string_view key) const {
  const std::string_view value = text(key);
  if (value == "true") return true;
  if (value == "false") return false;
  return wrong(key, "must be true or false");
}

Result<size_t> OptionReader::choice(std::string_view key,
                                    std::span<const std::string_view> choices) const {
  const std::string_view value = text(key);
  const auto found = std::find(choices.begin(), choices.end(), value);
  if (found != choices.end()) return static_cast<size_t>(found - choices.begin());
  return wrong(key, base::unknown_name_message("choice", value, choices));
}

Result<StoreSpec> parse_store_spec(std::string_view text) {
  StoreSpec spec;
  const size_t colon = text.find(':');
  spec.name = base::trim(text.substr(0, colon));
  if (colon == std::string_view::npos) return spec;
  std::string_view rest = text.substr(colon + 1);
  while (!rest.empty()) {
    size_t end = std::min(rest.find(','), rest.size());
    const size_t equals = rest.find('=');
    if (equals >= end) {
      return fail(ErrorCode::kInvalidArgument, "storage '{}': '{}' is not key=value", text,
                  rest.substr(0, end));
    }
    const std::string_view key = base::trim(rest.substr(0, equals));
    // A store with options of its own takes the rest: its commas are not ours.
    if (key == "over" && rest.substr(0, end).find(':') != std::string_view::npos) {
      end = rest.size();
    }
    const std::string_view value = base::trim(rest.substr(equals + 1, end - equals - 1));
    spec.options.emplace_back(key, value);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return spec;
}

}  // namespace forebay::storage
