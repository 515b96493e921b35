// What MLPerf Storage's rules ask for, and what they say of a run, for people and programs.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "emulate/findings.h"
#include "emulate/result.h"

namespace forebay::report {

std::string_view outcome_name(emulate::RulesReport::Outcome outcome);  // "valid", "open", "invalid"

nlohmann::ordered_json rules_json(const emulate::RulesReport& report);
// One line that says the outcome, and one for each finding.
std::string rules_text(const emulate::RulesReport& report);

// What a data set for this workload needs on these hosts.
struct SizeQuestion {
  std::string workload;
  std::string generate_command;                                 // "forebay generate my.yaml"
  std::string rules;                                            // "mlperf-v2.0"
  uint64_t accelerators = 1, hosts = 1, host_memory_bytes = 0;  // accelerators of one host
  uint64_t samples_per_file = 1;
  std::string note;  // what the rules say of the workload itself, or ""
};
std::string size_text(const SizeQuestion& question, const emulate::RequiredSize& size);
std::string size_json(const SizeQuestion& question, const emulate::RequiredSize& size);

}  // namespace forebay::report
