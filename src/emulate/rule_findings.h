// What a check of a run against the rules found, and the rules that all runs share.
//
// One thread.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "emulate/result.h"

namespace forebay::emulate {

// Collects what was found; the worst of it is the outcome.
class RuleFindings {
 public:
  explicit RuleFindings(RulesReport& report) : report_(report) {}
  void add(RulesReport::Outcome outcome, std::string_view rule, std::string text) {
    report_.findings.push_back({outcome, std::string(rule), std::move(text)});
    report_.outcome = std::max(report_.outcome, outcome);
  }
  void invalid(std::string_view rule, std::string text) {
    add(RulesReport::Outcome::kInvalid, rule, std::move(text));
  }

 private:
  RulesReport& report_;
};

// Whether `word` is in "a b c".
bool is_among(std::string_view list, std::string_view word);
// "direct", and other stores told to be so.
bool reads_past_cache(const std::string& storage);

// Hosts that are alike.
void check_hosts(const RunResult& result, RuleFindings& findings);
// Each key against the built-in of the workload's name; `outcome_of` says what changing one makes
// of the run. What changes nothing here counts only where somebody overrode it: shipped files hold
// keys that the built-ins leave out.
void check_parameters(const RunResult& result,
                      const std::function<RulesReport::Outcome(std::string_view key)>& outcome_of,
                      RuleFindings& findings);
// A store that is one, and no stand-in.
void check_storage(const std::string& storage, RuleFindings& findings);
// A run that went to its end.
void check_ending(const RunResult& result, RuleFindings& findings);

}  // namespace forebay::emulate
