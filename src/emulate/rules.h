// MLPerf Storage's rules for training: how large a data set must be, and whether a run kept them.
//
// Pure functions; safe to call from any thread. Sizes are bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulate/findings.h"
#include "emulate/result.h"
#include "forebay/result.h"
#include "workload/workload.h"

namespace forebay::emulate {

enum class RuleSet { kMlperfV2, kMlperfV3 };
std::string_view rule_set_name(RuleSet rules);  // "mlperf-v2.0"
// Also without "mlperf-".
std::optional<RuleSet> rule_set_from_name(std::string_view name);

struct SizeRequest {
  uint64_t accelerators = 1;        // of all hosts together
  uint64_t total_memory_bytes = 0;  // of all hosts together
};

// kInvalidArgument when the numbers pass 2^62.
Result<RequiredSize> required_size(const workload::Workload& workload, const SizeRequest& request);

// Whether the rules know the workload, and what they say about it.
struct RuledWorkload {
  RuleSet rules;
  std::string_view name;  // of the built-in
  double au;              // needed, fraction
  bool is_closed;         // may be handed in unchanged; else only in the open division
};
const RuledWorkload* find_ruled_workload(RuleSet rules, std::string_view name);
// "a, b, c": those that the rules know.
std::string ruled_workloads(RuleSet rules);

// Of a finished run, its verdict included.
RulesReport check_rules(const RunResult& result, RuleSet rules);

}  // namespace forebay::emulate
