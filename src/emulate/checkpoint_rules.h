// MLPerf Storage's rules for runs that only save and restore checkpoints.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emulate/result.h"
#include "emulate/rule_findings.h"
#include "emulate/rules.h"

namespace forebay::emulate {

// A workload that the rules know, and the ranks that it must have.
struct RuledCheckpoint {
  std::string_view name;  // of the built-in
  uint64_t ranks = 0;     // of a whole job
  uint64_t copies = 0;    // of the model among them: model.parallelism.data in subset mode
};
// Null: the rules do not know it. Those of v3.0 are not known here.
const RuledCheckpoint* find_ruled_checkpoint(RuleSet rules, std::string_view name);

// Of a finished run.
void check_checkpoint_rules(const RunResult& result, RuleSet rules, RuleFindings& findings,
                            RulesReport& report);

}  // namespace forebay::emulate
