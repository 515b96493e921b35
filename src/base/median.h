// The middle of some values: of an even number of them the mean of the two in the middle.
//
// Pure; safe to call from any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace forebay::base {

// 0 when there are none. Of integers the mean is rounded towards the smaller one.
template <class Number>
Number median_of(std::vector<Number> values) {
  if (values.empty()) return Number{};
  const auto upper = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), upper, values.end());
  if (values.size() % 2 == 1) return *upper;
  return std::midpoint(*std::max_element(values.begin(), upper), *upper);
}

}  // namespace forebay::base
