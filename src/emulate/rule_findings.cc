#include "emulate/rule_findings.h"

#include <fmt/format.h>

#include "base/text.h"
#include "workload/workload.h"

namespace forebay::emulate {
namespace {

using Outcome = RulesReport::Outcome;

// Names and places of results.
constexpr std::string_view kLabels = "name model.name model.type output.folder output.log_file";

}  // namespace

bool is_among(std::string_view list, std::string_view key) {
  const auto words = base::split(list, ' ');
  return std::find(words.begin(), words.end(), key) != words.end();
}

bool reads_past_cache(const std::string& storage) {
  const size_t colon = std::min(storage.find(':'), storage.size());
  if (storage.substr(0, colon) == "direct") return true;
  for (const std::string_view option : base::split(std::string_view(storage).substr(colon), ','))
    if (option.ends_with("direct=true") || option.ends_with("direct=yes")) return true;
  return false;
}

void check_hosts(const RunResult& result, RuleFindings& findings) {
  for (const HostResult& host : result.hosts) {
    const HostResult& first = result.hosts.front();
    if (host.accelerators == first.accelerators) continue;
    findings.invalid("hosts", fmt::format("{} has {} accelerators and {} has {}: all must have as "
                                          "many",
                                          host.host.name, host.accelerators, first.host.name,
                                          first.accelerators));
  }
}

void check_parameters(const RunResult& result,
                      const std::function<Outcome(std::string_view key)>& outcome_of,
                      RuleFindings& findings) {
  const workload::Resolved& resolved = result.resolved;
  const auto shipped = workload::resolve(resolved.workload.name, {}, {.compat = resolved.compat});
  if (!shipped.ok()) return;  // there is none of that name, which is another rule
  const auto keys = workload::schema();
  const size_t count = std::min({keys.size(), resolved.settings.size(), shipped->settings.size()});
  for (size_t i = 0; i < count; ++i) {
    const workload::Setting& setting = resolved.settings[i];
    const std::string& wanted = shipped->settings[i].value;
    if (setting.value == wanted || is_among(kLabels, setting.key)) continue;
    if (setting.key.starts_with("workflow.")) continue;  // rules of their own
    if (!keys[i].changes_run && !setting.origin.starts_with("override")) continue;
    const Outcome outcome = outcome_of(setting.key);
    if (outcome == Outcome::kValid) continue;
    findings.add(outcome, "parameters",
                 fmt::format("{} is {} ({}), but {} has {}{}", setting.key, setting.value,
                             setting.origin, resolved.workload.name, wanted,
                             outcome == Outcome::kOpen ? ": the open division allows it" : ""));
  }
}

void check_storage(const std::string& storage, RuleFindings& findings) {
  if (!is_among("local uring direct s3", storage.substr(0, storage.find(':'))))
    findings.invalid("storage", fmt::format("--storage {} is no storage system", storage));
}

void check_ending(const RunResult& result, RuleFindings& findings) {
  if (result.is_interrupted) findings.invalid("whole run", "the run was interrupted");
  if (!result.error.empty()) findings.invalid("whole run", "the run failed: " + result.error);
}

}  // namespace forebay::emulate
