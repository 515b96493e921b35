// Intervals for figures that a few repeats gave, by drawing the repeats again with replacement.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace forebay::base {

struct Interval {
  double low = 0, high = 0;
};

double mean_of(std::span<const double> values);  // 0 when empty

// A figure of the repeats that `chosen` names, each a number below the count of repeats. One choice
// for everything that was measured in a repeat keeps what they have in common.
using RepeatStatistic = std::function<double(std::span<const size_t> chosen)>;

// The 95 % bootstrap interval of `statistic` over `repeats` repeats; none with fewer than two. The
// percentiles are widened for few repeats (Hesterberg 2015, section 3.4: the plain ones are too
// narrow by sqrt((n-1)/n) and by the normal in place of Student's t). Equal arguments give equal
// intervals.
std::optional<Interval> bootstrap_interval(size_t repeats, const RepeatStatistic& statistic,
                                           uint64_t seed = 1);

}  // namespace forebay::base
