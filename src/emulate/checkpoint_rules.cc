#include "emulate/checkpoint_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/units.h"

namespace forebay::emulate {
namespace {

using Outcome = RulesReport::Outcome;

constexpr RuledCheckpoint kCheckpoints[] = {
    {"llama3_8b", 8, 8}, {"llama3_70b", 64, 8}, {"llama3_405b", 512, 2}, {"llama3_1t", 1024, 2}};

constexpr uint64_t kEachTimes = 10;   // saves, and restores
constexpr uint64_t kSubsetRanks = 8;  // that stand for a job which is too large
constexpr int kRanksOfHostMin = 4;
constexpr double kCachedShareMax = 0.01;  // of caches that were cleared

// checkpoint.mode and model.parallelism.data are judged with the ranks.
constexpr std::string_view kFreeKeys =
    "checkpoint.checkpoint_folder checkpoint.num_checkpoints_write "
    "checkpoint.num_checkpoints_read checkpoint.mode model.parallelism.data storage.storage_type "
    "storage.storage_root train.seed";

std::string known_names() {
  std::string text;
  for (const RuledCheckpoint& one : kCheckpoints)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", one.name);
  return text;
}

void check_ranks(const RunResult& result, const RuledCheckpoint& ruled, RuleFindings& findings) {
  const workload::Workload& workload = result.resolved.workload;
  const auto ranks = static_cast<uint64_t>(result.options.accelerators);
  if (workload.checkpoint.is_subset) {
    const auto copies = static_cast<int64_t>(ruled.copies);
    if (ranks == kSubsetRanks && workload.model.data_parallelism == copies) return;
    findings.invalid(
        "ranks", fmt::format("checkpoint.mode subset with {} ranks of {} copies of the model, but "
                             "{} of {} stand for the whole",
                             ranks, workload.model.data_parallelism.value_or(0), kSubsetRanks,
                             ruled.copies));
  } else if (ranks != ruled.ranks) {
    findings.invalid(
        "ranks", fmt::format("{}, but {} has {}; fewer: --accelerators {} checkpoint.mode=subset "
                             "model.parallelism.data={}",
                             base::format_counted(ranks, "ranks"), ruled.name, ruled.ranks,
                             kSubsetRanks, ruled.copies));
  }
}

void check_hosts_are_full(const RunResult& result, RuleFindings& findings) {
  const auto check = [&](const std::string& name, int ranks) {
    if (ranks >= kRanksOfHostMin) return;
    findings.invalid(
        "hosts",
        fmt::format("{} has {}, but {} are the least on a host", name,
                    base::format_counted(static_cast<uint64_t>(ranks), "ranks"), kRanksOfHostMin));
  };
  if (result.hosts.empty()) return check(result.host.name, result.options.accelerators);
  for (const HostResult& host : result.hosts) check(host.host.name, host.accelerators);
}

// Saves and restores may be runs of their own, with the caches cleared in between.
void check_counts(const RunResult& result, RuleFindings& findings, RulesReport& report) {
  const uint64_t saves = result.checkpoints.size(), restores = result.restores.size();
  const auto check = [&](std::string_view what, uint64_t count) {
    if (count != kEachTimes && count != 0)
      findings.invalid("times", fmt::format("{} {}, but {} are due", count, what, kEachTimes));
  };
  check("saves", saves);
  check("restores", restores);
  if (saves + restores == 0) findings.invalid("times", "nothing was saved or restored");
  if (saves == kEachTimes && restores == 0)
    report.not_checked.push_back("ten restores: a run of their own, after the caches were cleared");
  if (restores == kEachTimes && saves == 0)
    report.not_checked.push_back("ten saves: a run of their own, before this one");
  for (const CheckpointRecord& save : result.checkpoints) {
    if (save.is_synced) continue;
    findings.invalid("fsync", "checkpoint.fsync is False: what was saved may be in memory only");
    break;
  }
}

void check_cache(const RunResult& result, RuleFindings& findings, RulesReport& report) {
  if (result.options.cache == "warm")
    findings.invalid("cache", "--cache warm puts the checkpoint into memory before it is restored");
  double most = 0;
  for (const CheckpointRecord& restore : result.restores) {
    if (!restore.cached_bytes) {
      report.not_checked.push_back("bytes from the page cache: " + restore.cached_unknown);
      return;
    }
    most = std::max(most, static_cast<double>(*restore.cached_bytes) /
                              static_cast<double>(std::max<uint64_t>(1, restore.bytes)));
  }
  if (most > kCachedShareMax)
    findings.invalid("cache",
                     fmt::format("{:.0f} % of a restore's bytes were in the page cache; caches are "
                                 "to be cleared before: --cache cold",
                                 100 * std::min(1.0, most)));
}

}  // namespace

const RuledCheckpoint* find_ruled_checkpoint(RuleSet rules, std::string_view name) {
  if (rules != RuleSet::kMlperfV2) return nullptr;
  for (const RuledCheckpoint& one : kCheckpoints)
    if (one.name == name) return &one;
  return nullptr;
}

void check_checkpoint_rules(const RunResult& result, RuleSet rules, RuleFindings& findings,
                            RulesReport& report) {
  const std::string& name = result.resolved.workload.name;
  const RuledCheckpoint* ruled = find_ruled_checkpoint(rules, name);
  if (rules != RuleSet::kMlperfV2)
    findings.invalid("workload", fmt::format("only mlperf-v2.0's rules for checkpoints are known "
                                             "here, not {}'s",
                                             rule_set_name(rules)));
  else if (ruled == nullptr)
    findings.invalid("workload", fmt::format("{} is none of {}'s for checkpoints: {}", name,
                                             rule_set_name(rules), known_names()));
  if (ruled != nullptr) {
    const auto outcome_of = [](std::string_view key) {
      return is_among(kFreeKeys, key) ? Outcome::kValid : Outcome::kInvalid;
    };
    check_parameters(result, outcome_of, findings);
    check_ranks(result, *ruled, findings);
  }
  check_hosts(result, findings);
  check_hosts_are_full(result, findings);
  check_counts(result, findings, report);
  check_cache(result, findings, report);
  check_storage(result.options.storage, findings);
  if (reads_past_cache(result.options.storage))
    findings.invalid("storage", fmt::format("--storage {} goes past the page cache, which the "
                                            "rules' own program does not",
                                            result.options.storage));
  check_ending(result, findings);
  report.not_checked.push_back("results of saves and of restores in different folders");
}

}  // namespace forebay::emulate
