#include "emulate/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace forebay::emulate {
namespace {

// Above this share of all usable CPUs the client has nothing left to give.
constexpr double kClientBusy = 0.85;
constexpr double kMostlyCached = 0.5;
// Stalls below this share of the time limit nothing worth naming.
constexpr double kNoticeable = 0.01;
// Waiting for idle CPUs for less than this share of the time is what any program does.
constexpr double kSmallOverhead = 0.05;
// With more bad samples than this, the run did not do the workload's reading.
constexpr double kBadSharePasses = 0.01;

double cpu_share(double cpu_seconds, int cpus, const RunResult& result) {
  const double capacity = result.wall_seconds * cpus;
  return capacity > 0 ? cpu_seconds / capacity : 0;
}

int cpu_count(const RunResult& result) {
  int count = 0;
  for (const HostResult& host : result.hosts) count += host.host.cpu_count;
  return count > 0 ? count : result.host.cpu_count;
}

// The host with the busiest CPUs holds the others up.
const HostResult* busiest_host(const RunResult& result) {
  const auto share = [&](const HostResult& host) {
    return cpu_share(host.cpu_seconds, host.host.cpu_count, result);
  };
  const auto busiest = std::max_element(
      result.hosts.begin(), result.hosts.end(),
      [&](const HostResult& a, const HostResult& b) { return share(a) < share(b); });
  return busiest == result.hosts.end() ? nullptr : &*busiest;
}

double busiest_cpu_share(const RunResult& result) {
  const HostResult* busiest = busiest_host(result);
  return busiest == nullptr ? cpu_share(result.cpu_seconds, result.host.cpu_count, result)
                            : cpu_share(busiest->cpu_seconds, busiest->host.cpu_count, result);
}

std::string evidence(const RunResult& result, double total) {
  const CriticalSplit& split = result.critical;
  std::string text = fmt::format("steps waited {:.0f} % for bytes, {:.0f} % for decoding",
                                 100 * split.fetch / total, 100 * split.decode / total);
  const auto add = [&](double part, const char* what) {
    if (part / total >= kNoticeable) text += fmt::format(", {:.0f} % {}", 100 * part / total, what);
  };
  add(split.sync, "for unequal compute times");
  add(split.checkpoint, "for checkpoints");
  add(split.other, "for this machine to wake them");
  const int cpus = cpu_count(result);
  text += fmt::format("; client CPU {:.0f} % of {} cores",
                      100 * cpu_share(result.cpu_seconds, cpus, result), cpus);
  if (result.hosts.size() > 1)
    text += fmt::format(", {:.0f} % on {}", 100 * busiest_cpu_share(result),
                        busiest_host(result)->host.name);
  return text;
}

// The AU leaves checkpoints out, so they are the limit only where nothing else is.
void name_the_limit(const RunResult& result, Verdict& verdict) {
  const CriticalSplit& split = result.critical;
  const double total = split.total();
  if (total <= 0) return;
  const double stall = std::max({split.fetch, split.decode, split.sync, split.other});
  verdict.limit_evidence = evidence(result, total);
  const bool is_own_overhead = stall == split.decode || stall == split.other;
  const bool is_small =
      is_own_overhead && stall / total < kSmallOverhead && busiest_cpu_share(result) < kClientBusy;
  if (stall / total < kNoticeable || is_small) {
    verdict.limited_by = split.checkpoint / total >= kNoticeable ? "checkpoint"
                         : split.compute > 0                     ? "compute"
                                                                 : "";
  } else if (stall == split.sync) {
    verdict.limited_by = "synchronisation";
  } else if (is_own_overhead || busiest_cpu_share(result) >= kClientBusy) {
    verdict.limited_by = "client";
  } else if (result.cached_share.value && *result.cached_share.value >= kMostlyCached) {
    verdict.limited_by = "memory";
    verdict.limit_evidence += fmt::format(", {:.0f} % of the bytes from the page cache",
                                          100 * *result.cached_share.value);
  } else {
    verdict.limited_by = "storage";
  }
}

void count_fed(const RunResult& result, Verdict& verdict) {
  const workload::Workload& workload = result.resolved.workload;
  const double compute = workload.train.computation_time.mean();
  if (compute <= 0 || !result.samples_per_second.mean || !result.au.mean) {
    verdict.accelerators_fed = Figure::none("needs a compute time and a measured rate");
    return;
  }
  const double demand = static_cast<double>(workload.reader.batch_size) / compute;
  const double fed = std::floor(*result.samples_per_second.mean / (demand * verdict.gate) + 1e-9);
  const bool passed = *result.au.mean >= verdict.gate;
  verdict.is_lower_bound = passed;
  // A run that passes shows only that so many are fed; the speed limit was not reached.
  verdict.accelerators_fed =
      Figure::of(passed ? result.options.accelerators
                        : std::min<double>(fed, result.options.accelerators - 1));
}

}  // namespace

Verdict judge(const RunResult& result) {
  Verdict verdict;
  verdict.gate = result.resolved.workload.metric.au;
  if (result.resolved.workload.workflow.is_checkpoint_only()) {
    verdict.reason = "a run that only saves and restores has no AU to judge";
    verdict.au = verdict.accelerators_fed = Figure::none(verdict.reason);
    if (result.is_interrupted || !result.error.empty())
      verdict.outcome = Verdict::Outcome::kIncomplete;
    return verdict;
  }
  if (result.error.empty()) name_the_limit(result, verdict);  // else the error is the limit
  count_fed(result, verdict);
  if (!result.au.mean) {
    verdict.au = Figure::none(result.au.reason);
    verdict.reason = "AU not measured: " + result.au.reason;
    if (result.is_interrupted || !result.error.empty())
      verdict.outcome = Verdict::Outcome::kIncomplete;
    return verdict;
  }
  verdict.au = Figure::of(*result.au.mean);
  const bool passed = *result.au.mean >= verdict.gate;
  verdict.outcome = passed ? Verdict::Outcome::kPass : Verdict::Outcome::kFail;
  verdict.reason =
      fmt::format("AU {:.1f} %, needs {:.0f} %", 100 * *result.au.mean, 100 * verdict.gate);
  uint64_t samples = 0, skipped = 0;
  for (const EpochResult& epoch : result.epochs) {
    samples += epoch.samples;
    skipped += epoch.skipped_samples;
  }
  if (result.bad_count > 0) {
    const auto asked = static_cast<double>(std::max<uint64_t>(1, samples + skipped));
    const double share = static_cast<double>(result.bad_count) / asked;
    verdict.reason += fmt::format("; {:.1f} % of the samples were bad", 100 * share);
    if (share > kBadSharePasses) verdict.outcome = Verdict::Outcome::kIncomplete;
  }
  if (result.is_interrupted || !result.error.empty()) {
    verdict.outcome = Verdict::Outcome::kIncomplete;
    verdict.reason += result.is_interrupted ? "; the run was interrupted" : "; the run failed";
  }
  if (result.cached_share.value && *result.cached_share.value >= kMostlyCached)
    verdict.reason += fmt::format("; {:.0f} % of the bytes came from the page cache",
                                  100 * *result.cached_share.value);
  return verdict;
}

}  // namespace forebay::emulate
