#include "trace/differential.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

namespace forebay::trace {
namespace {

using Choice = std::span<const size_t>;

double mean_of_chosen(const std::vector<double>& values, Choice chosen) {
  double sum = 0;
  for (const size_t repeat : chosen) sum += values[repeat];
  return sum / static_cast<double>(chosen.size());
}

// `figure` of all repeats, and its interval.
Estimate estimate(size_t repeats, const std::function<double(Choice)>& figure) {
  std::vector<size_t> all(repeats);
  for (size_t i = 0; i < repeats; ++i) all[i] = i;
  Estimate made;
  made.value = figure(all);
  made.interval = base::bootstrap_interval(repeats, figure);
  return made;
}

Estimate estimate_of(const std::vector<double>& values, const std::string& reason) {
  if (values.empty()) return {std::nullopt, reason, std::nullopt};
  return estimate(values.size(), [&](Choice chosen) { return mean_of_chosen(values, chosen); });
}

std::string why_missing(const DifferentialTimes& times, RunKind kind) {
  return fmt::format("{} was not run: {}", run_name(kind), times[kind].reason);
}

Estimate difference_of(const DifferentialTimes& times, RunKind from, RunKind baseline) {
  for (const RunKind kind : {from, baseline})
    if (!times[kind].is_measured()) return {std::nullopt, why_missing(times, kind), std::nullopt};
  const std::vector<double>&a = times[from].seconds, &b = times[baseline].seconds;
  return estimate(std::min(a.size(), b.size()), [&](Choice chosen) {
    return mean_of_chosen(a, chosen) - mean_of_chosen(b, chosen);
  });
}

std::optional<double> share_of(const Estimate& part, const Estimate& whole) {
  if (!part.value || !whole.value || *whole.value <= 0) return std::nullopt;
  return *part.value / *whole.value;
}

DifferentialStall stall_between(const DifferentialTimes& times, const DifferentialStalls& known,
                                RunKind from, RunKind baseline) {
  DifferentialStall made;
  made.from = from;
  made.baseline = baseline;
  made.difference = difference_of(times, from, baseline);
  made.stall = made.difference;
  if (!made.stall.value) return made;
  made.is_clamped = *made.stall.value < 0;
  made.stall.value = std::max(0.0, *made.stall.value);
  if (auto& interval = made.stall.interval) {
    made.is_negative_beyond_noise = interval->high < 0;
    interval->low = std::max(0.0, interval->low);
    interval->high = std::max(0.0, interval->high);
  }
  made.share_of_baseline = share_of(made.stall, known[baseline]);
  made.share_of_step = share_of(made.stall, known[RunKind::kCold]);
  return made;
}

Additivity additivity_of(const DifferentialStalls& found, bool real_data_on_hosts) {
  Additivity made;
  const Estimate& cold = found[RunKind::kCold];
  made.measured = cold.value;
  made.from = found[RunKind::kOne].value ? RunKind::kOne : RunKind::kAll;
  double sum = found[made.from].value.value_or(0);
  for (size_t i = 0; i < kStallKinds; ++i) {
    const auto kind = static_cast<StallKind>(i);
    // T3 ran on one host: the network is no part of it.
    if (kind == StallKind::kNetwork && !real_data_on_hosts) continue;
    if (kind == StallKind::kInterconnect && made.from == RunKind::kAll) continue;
    const Estimate& stall = found.stalls[i].stall;
    if (!stall.value && made.reason.empty()) made.reason = stall.reason;
    sum += stall.value.value_or(0);
  }
  if (!made.reason.empty()) return made;
  made.sum = sum;
  if (*cold.value > 0) made.error_share = std::abs(sum - *cold.value) / *cold.value;
  return made;
}

// The smallest share x with 1 / (x / memory + (1 - x) / cold) >= needed, not bounded.
double share_needed(double needed, double memory, double cold) {
  const double saved = 1 / cold - 1 / memory;  // seconds that a cached sample saves
  const double excess = 1 / cold - 1 / needed;
  if (excess <= 0) return 0;
  return saved <= 0 ? HUGE_VAL : excess / saved;
}

}  // namespace

std::string_view run_name(RunKind kind) {
  static constexpr std::array<std::string_view, kRunKinds> kNames{"T1", "T2", "T3", "T4", "T5"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view run_meaning(RunKind kind) {
  static constexpr std::array<std::string_view, kRunKinds> kMeanings{
      "one accelerator, synthetic", "all, one host, synthetic", "all, real data, cold",
      "all, real data, warm", "all, several hosts, synthetic"};
  return kMeanings[static_cast<size_t>(kind)];
}

std::string_view stall_name(StallKind kind) {
  static constexpr std::array<std::string_view, kStallKinds> kNames{"interconnect", "network",
                                                                    "prep", "fetch"};
  return kNames[static_cast<size_t>(kind)];
}

DifferentialStalls differential_stalls(const DifferentialTimes& times, bool real_data_on_hosts) {
  DifferentialStalls found;
  for (size_t i = 0; i < kRunKinds; ++i)
    found.runs[i] = estimate_of(times.runs[i].seconds, times.runs[i].reason);
  const auto put = [&](StallKind kind, RunKind from, RunKind baseline) {
    found.stalls[static_cast<size_t>(kind)] = stall_between(times, found, from, baseline);
  };
  put(StallKind::kInterconnect, RunKind::kAll, RunKind::kOne);
  put(StallKind::kNetwork, RunKind::kHosts, RunKind::kAll);
  put(StallKind::kPrep, RunKind::kWarm, real_data_on_hosts ? RunKind::kHosts : RunKind::kAll);
  put(StallKind::kFetch, RunKind::kCold, RunKind::kWarm);
  found.additivity = additivity_of(found, real_data_on_hosts);
  return found;
}

CacheShare cache_share(const MeasuredRates& rates) {
  CacheShare found;
  found.compute = estimate_of(rates.compute, rates.reason);
  found.prep = estimate_of(rates.prep, rates.reason);
  found.fetch_memory = estimate_of(rates.fetch_memory, rates.reason);
  found.fetch_cold = estimate_of(rates.fetch_cold, rates.reason);
  const size_t repeats = std::min({rates.compute.size(), rates.prep.size(),
                                   rates.fetch_memory.size(), rates.fetch_cold.size()});
  if (repeats == 0) {
    found.share.reason = rates.reason;
    return found;
  }
  const auto unbounded = [&](Choice chosen) {
    const double needed =
        std::min(mean_of_chosen(rates.compute, chosen), mean_of_chosen(rates.prep, chosen));
    return share_needed(needed, mean_of_chosen(rates.fetch_memory, chosen),
                        mean_of_chosen(rates.fetch_cold, chosen));
  };
  found.share = estimate(repeats, [&](Choice chosen) { return std::min(1.0, unbounded(chosen)); });
  std::vector<size_t> all(repeats);
  for (size_t i = 0; i < repeats; ++i) all[i] = i;
  found.is_enough = unbounded(all) <= 1;
  found.needed_by = *found.prep.value < *found.compute.value ? "prep" : "compute";
  return found;
}

PaceModel pace_model(const CacheShare& rates, double samples, const Estimate& cold) {
  PaceModel made;
  made.measured = cold.value;
  for (const Estimate* rate : {&rates.compute, &rates.prep, &rates.fetch_cold})
    if (!rate->value && made.reason.empty()) made.reason = rate->reason;
  if (!made.reason.empty()) return made;
  using Part = std::pair<double, std::string_view>;
  const Part slowest =
      std::min({Part{*rates.compute.value, "compute"}, Part{*rates.prep.value, "prep"},
                Part{*rates.fetch_cold.value, "fetch"}});
  made.slowest = slowest.second;
  made.predicted = samples / slowest.first;
  if (cold.value && *cold.value > 0)
    made.error_share = std::abs(*made.predicted - *cold.value) / *cold.value;
  return made;
}

}  // namespace forebay::trace
