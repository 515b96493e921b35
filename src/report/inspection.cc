#include "report/inspection.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace forebay::report {
namespace {

using Json = nlohmann::ordered_json;
using base::format_bytes;
using base::format_count;

std::string row(const std::string& label, const std::string& text) {
  return fmt::format("{:<12}{}\n", label, text);
}

// One line per power of two.
std::string size_bars(const trace::Histogram& sizes) {
  std::map<int, uint64_t> by_power;
  for (const auto& bucket : sizes.buckets())
    by_power[bucket.low == 0 ? -1 : static_cast<int>(std::bit_width(bucket.low)) - 1] +=
        bucket.count;
  uint64_t most = 1;
  for (const auto& [power, count] : by_power) most = std::max(most, count);
  std::string text;
  for (const auto& [power, count] : by_power) {
    const double low = power < 0 ? 0 : static_cast<double>(uint64_t{1} << power);
    const auto width = static_cast<size_t>(1 + 39 * count / most);
    text += fmt::format("{:>14}  {:<40} {}\n", base::format_memory(low) + " ..",
                        std::string(width, '#'), format_count(count));
  }
  return text;
}

std::string percent(const emulate::Spread& au) {
  return au.mean ? fmt::format("{:.1f} %", 100 * *au.mean) : "-";
}

Json attempt_json(const emulate::Attempt& attempt) {
  Json json;
  json["accelerators"] = attempt.accelerators;
  json["au_mean"] = attempt.au.mean ? Json(*attempt.au.mean) : Json(nullptr);
  json["au_stdev"] = attempt.au.stdev ? Json(*attempt.au.stdev) : Json(nullptr);
  json["n"] = attempt.au.n;
  json["passed"] = attempt.passed;
  json["limited_by"] = attempt.limited_by;
  json["cached_share"] = attempt.is_cached_share_known ? Json(attempt.cached_share) : Json(nullptr);
  return json;
}

}  // namespace

std::string inspection_text(const emulate::Inspection& inspection) {
  std::string text = row("path", inspection.path);
  text += row("format", inspection.format);
  text += row("files", fmt::format("{}, {}", format_count(inspection.files),
                                   format_bytes(static_cast<double>(inspection.bytes))));
  text += row("samples", format_count(inspection.samples));
  if (!inspection.first_sample.empty()) text += row("first", inspection.first_sample);
  const trace::Histogram& sizes = inspection.file_bytes;
  const auto size = [](uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  text += row("file sizes", fmt::format("min {}   p50 {}   p99 {}   max {}", size(sizes.min()),
                                        size(sizes.percentile(50)), size(sizes.percentile(99)),
                                        size(sizes.max())));
  text += size_bars(sizes);
  if (inspection.is_checked)
    text += row("checked", fmt::format("{}, {} decoded, {:.1f} s, {} bad",
                                       base::format_counted(inspection.checked_samples, "samples"),
                                       format_bytes(static_cast<double>(inspection.checked_bytes)),
                                       inspection.check_seconds, inspection.bad_count));
  else
    text += row("checked", "no; --check reads and decodes every sample");
  for (const std::string& bad : inspection.bad) text += row("bad", bad);
  if (inspection.bad_count > inspection.bad.size())
    text += row("", fmt::format("... and {} more", inspection.bad_count - inspection.bad.size()));
  text += row("problems", format_count(inspection.problem_count));
  for (const auto& [path, reason] : inspection.problems) {
    const std::string problem = reason.starts_with(path) ? reason : path + ": " + reason;
    const bool is_named =
        std::find(inspection.bad.begin(), inspection.bad.end(), problem) != inspection.bad.end() ||
        std::find(inspection.bad.begin(), inspection.bad.end(), reason) != inspection.bad.end();
    if (!is_named) text += row("", problem);
  }
  if (inspection.problem_count > inspection.problems.size())
    text += row(
        "", fmt::format("... and {} more", inspection.problem_count - inspection.problems.size()));
  return text;
}

std::string inspection_json(const emulate::Inspection& inspection) {
  Json json;
  json["schema_version"] = emulate::kSchemaVersion;
  json["path"] = inspection.path;
  json["format"] = inspection.format;
  json["files"] = inspection.files;
  json["bytes"] = inspection.bytes;
  json["samples"] = inspection.samples;
  json["first_sample"] =
      inspection.first_sample.empty() ? Json(nullptr) : Json(inspection.first_sample);
  Json& sizes = json["file_bytes"];
  sizes["min"] = inspection.file_bytes.min();
  sizes["max"] = inspection.file_bytes.max();
  sizes["mean"] = inspection.file_bytes.mean();
  for (const double p : {50.0, 99.0})
    sizes[fmt::format("p{:g}", p)] = inspection.file_bytes.percentile(p);
  Json& buckets = sizes["buckets_low_high_count"] = Json::array();
  for (const auto& b : inspection.file_bytes.buckets()) buckets.push_back({b.low, b.high, b.count});
  json["is_checked"] = inspection.is_checked;
  if (inspection.is_checked) {
    json["checked_samples"] = inspection.checked_samples;
    json["checked_bytes"] = inspection.checked_bytes;
    json["check_seconds"] = inspection.check_seconds;
  }
  json["bad_count"] = inspection.bad_count;
  json["bad"] = inspection.bad;
  json["problem_count"] = inspection.problem_count;
  Json& problems = json["problems"] = Json::array();
  for (const auto& [path, reason] : inspection.problems)
    problems.push_back(Json{{"path", path}, {"reason", reason}});
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string attempt_line(const emulate::Attempt& attempt) {
  return fmt::format(
      "{:>4} accelerator{}   AU {:>7}   {}   limited by {}{}\n", attempt.accelerators,
      attempt.accelerators == 1 ? " " : "s", percent(attempt.au), attempt.passed ? "pass" : "FAIL",
      attempt.limited_by.empty() ? "nothing" : attempt.limited_by,
      attempt.is_cached_share_known && attempt.cached_share >= 0.5
          ? fmt::format("   ({:.0f} % from the page cache)", 100 * attempt.cached_share)
          : "");
}

std::string maximum_text(const emulate::MaximumFound& found) {
  if (found.is_interrupted)
    return row("maximum",
               fmt::format("not found: interrupted; {} passed so far", found.accelerators));
  return row("maximum", fmt::format("{} accelerator{}{}", found.accelerators,
                                    found.accelerators == 1 ? "" : "s",
                                    found.stopped_by == "gate" ? ""
                                    : found.stopped_by == "limit"
                                        ? "; none failed up to --max-accelerators, more may be fed"
                                        : "; none failed, but more leave no step to measure: raise "
                                          "dataset.num_files_train"));
}

std::string maximum_json(const emulate::MaximumFound& found) {
  Json json;
  json["schema_version"] = emulate::kSchemaVersion;
  json["accelerators_max"] = found.accelerators;
  json["stopped_by"] = found.stopped_by;
  json["is_interrupted"] = found.is_interrupted;
  Json& attempts = json["attempts"] = Json::array();
  for (const emulate::Attempt& attempt : found.attempts) attempts.push_back(attempt_json(attempt));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace forebay::report
