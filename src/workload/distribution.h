// Distributions as YAML: a number of seconds, {mean, stdev}, or {type: gamma, shape: 1, scale:
// 0.01}.
#pragma once

#include <string>

#include "forebay/result.h"
#include "workload/value.h"

namespace forebay::workload {

// null and {} mean 0 seconds. Means below 0, and parameters that give none, are errors.
Result<Distribution> read_distribution(const Limits& limits, const Node& node);

std::string distribution_yaml(const Distribution& distribution);

}  // namespace forebay::workload
