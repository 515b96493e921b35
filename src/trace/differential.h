// Stalls as differences between runs of the same work: DS-Analyzer's prep and fetch stall, Stash's
// interconnect and network stall. Whoever runs the work, the emulator or a recorder of real
// programs, brings the times; here is what they mean.
//
// Values and pure functions; safe to call from any thread. Times are seconds a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/resample.h"

namespace forebay::trace {

// How the work is run. Each accelerator does the same steps of the same batch in all of them.
enum class RunKind {
  kOne,    // T1: one accelerator, synthetic data
  kAll,    // T2: all accelerators of one host, synthetic data
  kCold,   // T3: all, real data that no cache holds
  kWarm,   // T4: all, real data from memory
  kHosts,  // T5: all, over two hosts or more, synthetic data
};
constexpr size_t kRunKinds = 5;
std::string_view run_name(RunKind kind);     // "T1"
std::string_view run_meaning(RunKind kind);  // "one accelerator, synthetic"

// A kind of run: its times, one per repeat, or why there are none.
struct RunTimes {
  std::vector<double> seconds;
  std::string reason;
  bool is_measured() const { return !seconds.empty(); }
};

// Entry i of every run that was measured belongs to repeat i; all have as many.
struct DifferentialTimes {
  std::array<RunTimes, kRunKinds> runs;
  RunTimes& operator[](RunKind kind) { return runs[static_cast<size_t>(kind)]; }
  const RunTimes& operator[](RunKind kind) const { return runs[static_cast<size_t>(kind)]; }
};

// A figure with what repeats say of it, or why there is none.
struct Estimate {
  std::optional<double> value;
  std::string reason;                      // set when there is no value
  std::optional<base::Interval> interval;  // 95 %; none from one repeat
};

enum class StallKind { kInterconnect, kNetwork, kPrep, kFetch };
constexpr size_t kStallKinds = 4;
std::string_view stall_name(StallKind kind);  // "interconnect"

struct DifferentialStall {
  RunKind from = RunKind::kAll, baseline = RunKind::kOne;  // from - baseline
  Estimate difference;                                     // as measured, may be negative
  Estimate stall;                                          // never below 0, nor is its interval
  bool is_clamped = false;  // the difference was negative: it was taken for 0
  // The whole interval lies below 0: noise between the repeats does not explain it.
  bool is_negative_beyond_noise = false;
  std::optional<double> share_of_baseline;  // stall / baseline
  std::optional<double> share_of_step;      // stall / T3
};

// The differences telescope: without a clamped one their sum with T1 is T3. What clamping adds is
// the error of taking them for parts of T3.
struct Additivity {
  RunKind from = RunKind::kOne;  // kAll where T1 was not run: without the interconnect
  std::optional<double> sum;     // `from` + stalls
  std::optional<double> measured;
  std::optional<double> error_share;  // |sum - measured| / measured
  std::string reason;                 // set when there is no sum
};

struct DifferentialStalls {
  std::array<Estimate, kRunKinds> runs;
  std::array<DifferentialStall, kStallKinds> stalls;
  Additivity additivity;
  const Estimate& operator[](RunKind kind) const { return runs[static_cast<size_t>(kind)]; }
  const DifferentialStall& operator[](StallKind kind) const {
    return stalls[static_cast<size_t>(kind)];
  }
};

// Where the real data were read by several hosts (`real_data_on_hosts`), prep is what T4 takes more
// than T5: T2 lacks the network. `network` then stands between T2 and T5 as always.
DifferentialStalls differential_stalls(const DifferentialTimes& times,
                                       bool real_data_on_hosts = false);

// DS-Analyzer's question: which share of the data set must memory hold, so that fetching keeps up
// with the slower of preparing and computing? All rates are samples a second, one per repeat, each
// measured with nothing else to wait for.
struct MeasuredRates {
  std::vector<double> compute;       // with synthetic data
  std::vector<double> prep;          // data in memory, prepared, no computing
  std::vector<double> fetch_memory;  // data in memory, not prepared, no computing
  std::vector<double> fetch_cold;    // data in no cache, not prepared, no computing
  std::string reason;                // set when one of them is missing
};

struct CacheShare {
  Estimate compute, prep, fetch_memory, fetch_cold;  // the rates
  Estimate share;                                    // in [0, 1]; 0 = none need be held
  std::string needed_by;  // "compute" or "prep": what fetching has to keep up with
  bool is_enough = true;  // false: not even all of it in memory; the share is 1
};
CacheShare cache_share(const MeasuredRates& rates);

// What a pipeline whose slowest part sets the pace would take for `samples` in a cold step, and how
// far the measured T3 is from it.
struct PaceModel {
  std::optional<double> predicted, measured, error_share;
  std::string slowest;  // "compute", "prep", "fetch"
  std::string reason;   // set when there is no prediction
};
PaceModel pace_model(const CacheShare& rates, double samples, const Estimate& cold);

}  // namespace forebay::trace
