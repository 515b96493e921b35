#include "report/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace forebay::report {
namespace {

// Two-sided 95 % points of Student's t for 1..10 degrees of freedom; later ones by interpolation in
// 1/df towards the normal distribution's 1.96.
double t_point(double freedom) {
  static constexpr std::array<double, 10> kPoints{12.706, 4.303, 3.182, 2.776, 2.571,
                                                  2.447,  2.365, 2.306, 2.262, 2.228};
  if (freedom < 1) return kPoints[0];
  if (freedom >= 10) return 1.96 + (kPoints[9] - 1.96) * 10 / freedom;
  const auto i = static_cast<size_t>(freedom);
  const double part = freedom - static_cast<double>(i);
  return kPoints[i - 1] + (kPoints[std::min<size_t>(i, 9)] - kPoints[i - 1]) * part;
}

// Welch's unequal-variances test.
bool differs(const StoredFigure& a, const StoredFigure& b) {
  const auto na = static_cast<double>(a.n), nb = static_cast<double>(b.n);
  const double va = a.stdev * a.stdev / na, vb = b.stdev * b.stdev / nb;
  if (va + vb == 0) return a.mean != b.mean;
  const double t = std::abs(a.mean - b.mean) / std::sqrt(va + vb);
  const double freedom = (va + vb) * (va + vb) / (va * va / (na - 1) + vb * vb / (nb - 1));
  return t > t_point(freedom);
}

Difference judge(const StoredFigure& a, const StoredFigure& b) {
  Difference difference{a.name, a.unit, a.mean, b.mean, a.stdev, b.stdev, a.n, b.n};
  difference.ratio = a.mean != 0 ? b.mean / a.mean : 1;
  if (a.n < 2 || b.n < 2) return difference;
  const bool higher = b.mean > a.mean;
  difference.judgement = !differs(a, b)                      ? Difference::Judgement::kSame
                         : higher == a.is_better_when_higher ? Difference::Judgement::kBetter
                                                             : Difference::Judgement::kWorse;
  return difference;
}

std::string value_text(double value, double stdev, uint64_t n, const std::string& unit) {
  std::string text;
  if (unit == "fraction")
    text = fmt::format("{:.1f} %", 100 * value);
  else if (unit == "B/s")
    text = base::format_bytes_per_second(value);
  else if (unit == "B")
    text = base::format_memory(value);
  else if (unit == "s")
    text = base::format_seconds(value);
  else
    text = fmt::format("{:.4g} {}", value, unit);
  if (n > 1 && unit == "fraction") return text + fmt::format(" +-{:.1f}", 100 * stdev);
  if (n > 1 && unit == "fraction") return text + fmt::format(" +-{:.1f}", 100 * stdev);
  if (n > 1 && value != 0) text += fmt::format(" +-{:.1f} %", 100 * stdev / std::abs(value));
  return text;
}

const char* word(Difference::Judgement judgement) {
  switch (judgement) {
    case Difference::Judgement::kBetter:
      return "better";
    case Difference::Judgement::kWorse:
      return "worse";
    case Difference::Judgement::kSame:
      return "same";
    case Difference::Judgement::kUnknown:
      break;
  }
  return "single value";
}

}  // namespace

Comparison compare(const StoredResult& before, const StoredResult& after) {
  Comparison comparison;
  for (size_t i = 0; i < std::min(before.conditions.size(), after.conditions.size()); ++i)
    if (before.conditions[i] != after.conditions[i])
      comparison.warnings.push_back(
          fmt::format("not the same: {} / {}", before.conditions[i], after.conditions[i]));
  for (const auto& [key, value] : before.settings) {
    const auto other = after.settings.find(key);
    if (other != after.settings.end() && other->second != value && key != "output.folder")
      comparison.warnings.push_back(
          fmt::format("not the same: {} {} / {}", key, value, other->second));
  }
  for (const StoredFigure& a : before.figures) {
    const auto b = std::find_if(after.figures.begin(), after.figures.end(),
                                [&](const StoredFigure& f) { return f.name == a.name; });
    if (b != after.figures.end())
      comparison.differences.push_back(judge(a, *b));
    else
      comparison.warnings.push_back(fmt::format("{} is measured in {} only", a.name, before.path));
  }
  for (const StoredFigure& b : after.figures)
    if (std::none_of(before.figures.begin(), before.figures.end(),
                     [&](const StoredFigure& f) { return f.name == b.name; }))
      comparison.warnings.push_back(fmt::format("{} is measured in {} only", b.name, after.path));
  return comparison;
}

std::string comparison_text(const StoredResult& before, const StoredResult& after,
                            const Comparison& comparison) {
  std::string text = fmt::format("A  {} ({}, {})\nB  {} ({}, {})\n", before.path, before.workload,
                                 before.outcome, after.path, after.workload, after.outcome);
  for (const std::string& warning : comparison.warnings) text += "note  " + warning + "\n";
  text += fmt::format("{:<30}{:<24}{:<24}{:<9}{}\n", "figure", "A", "B", "B/A", "judgement");
  for (const Difference& d : comparison.differences)
    text += fmt::format("{:<30}{:<24}{:<24}{:<9.3f}{}\n", d.name,
                        value_text(d.before, d.before_stdev, d.before_n, d.unit),
                        value_text(d.after, d.after_stdev, d.after_n, d.unit), d.ratio,
                        word(d.judgement));
  return text;
}

std::string comparison_json(const StoredResult& before, const StoredResult& after,
                            const Comparison& comparison) {
  nlohmann::ordered_json json;
  json["schema_version"] = emulate::kSchemaVersion;
  json["before"] = before.path;
  json["after"] = after.path;
  json["warnings"] = comparison.warnings;
  auto& rows = json["figures"] = nlohmann::ordered_json::array();
  for (const Difference& d : comparison.differences)
    rows.push_back(
        {{"name", d.name},
         {"unit", d.unit},
         {"before_mean", d.before},
         {"before_stdev", d.before_stdev},
         {"before_n", d.before_n},
         {"after_mean", d.after},
         {"after_stdev", d.after_stdev},
         {"after_n", d.after_n},
         {"ratio", d.ratio},
         {"judgement",
          d.judgement == Difference::Judgement::kUnknown ? "unknown" : word(d.judgement)}});
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace forebay::report
