// Periods of a rate: peaks of the autocorrelation of how many events begin in each slice of time.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forebay::explain {

struct PeriodPeak {
  int64_t period_ns = 0;
  double strength = 0;  // correlation, 1 = repeats exactly
};

// The strongest peaks first, at most five; none when nothing repeats. `times` are in order.
// Costs O(n + m log m) with m = 65,536 slices.
std::vector<PeriodPeak> find_periods(std::span<const int64_t> times);

}  // namespace forebay::explain
