#include "base/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace forebay::base {
namespace {

constexpr size_t kResamples = 10'000;  // the widened percentiles of 5 repeats are 0.1 % and 99.9 %

// The 97.5 % point of Student's t for 1, 2, ... degrees of freedom.
constexpr std::array<double, 30> kStudent{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                          2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                          2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                          2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
constexpr double kNormal = 1.960;

// The share of resamples to leave out at each end.
double tail_share(size_t repeats) {
  const size_t freedom = repeats - 1;
  const double t = freedom <= kStudent.size() ? kStudent[freedom - 1] : kNormal;
  const auto n = static_cast<double>(repeats);
  return 0.5 * std::erfc(t * std::sqrt(n / (n - 1)) / std::sqrt(2.0));
}

}  // namespace

double mean_of(std::span<const double> values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::optional<Interval> bootstrap_interval(size_t repeats, const RepeatStatistic& statistic,
                                           uint64_t seed) {
  if (repeats < 2) return std::nullopt;
  Random random(seed);
  std::vector<size_t> chosen(repeats);
  std::vector<double> figures;
  figures.reserve(kResamples);
  for (size_t i = 0; i < kResamples; ++i) {
    for (size_t& repeat : chosen) repeat = static_cast<size_t>(random.below(repeats));
    figures.push_back(statistic(chosen));
  }
  std::sort(figures.begin(), figures.end());
  const auto out = static_cast<size_t>(tail_share(repeats) * static_cast<double>(kResamples));
  return Interval{figures[out], figures[kResamples - 1 - out]};
}

}  // namespace forebay::base
