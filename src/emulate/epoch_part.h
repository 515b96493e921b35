// What one process measured of an epoch and of the run, and how the parts make the whole.
//
// Pure functions of values; safe to call from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulate/accelerator.h"
#include "emulate/metrics.h"
#include "emulate/result.h"
#include "forebay/result.h"
#include "sys/network.h"
#include "trace/histogram.h"

namespace forebay::emulate {

struct EpochPart {
  int rank = 0;  // of the process
  uint64_t epoch = 0;
  bool is_evaluation = false;
  double start = 0, end = 0;       // seconds since the run's start, on the clock of process 0
  std::vector<RankTotals> totals;  // by accelerator of the process
  std::vector<RankEpoch> ranks;
  double cpu_seconds = 0;
  std::optional<uint64_t> device_bytes;
  std::string device_unknown;  // why there are none
  std::string why_no_bytes = "no bytes were read";
  std::optional<sys::NetworkBytes> network;  // of the host; one process of each host tells
  uint64_t bad_count = 0;                    // since the run's start
  trace::Histogram read_ns;
  std::map<std::string, std::string> meminfo;  // of the host when the epoch ended
};

// Without the blocks of the accelerators, which are long and go to process 0 only.
std::string pack(const EpochPart& part);
Result<EpochPart> unpack_epoch_part(std::string_view bytes);
std::string pack_blocks(const EpochPart& part);
Status unpack_blocks(std::string_view bytes, EpochPart& part);

// `parts` by rank; those of processes that could not tell are left out. `hosts` by rank.
EpochResult merge(std::vector<EpochPart> parts, StepRange included,
                  std::span<const std::string> hosts);

// What one process says at the end.
struct RunPart {
  int rank = 0;
  int accelerators = 0;
  sys::Host host;
  std::map<std::string, std::string> cpuinfo, meminfo;  // of the host
  double cpu_seconds = 0;
  uint64_t peak_resident_bytes = 0;
  int open_files_max = 0, threads_max = 0;
  uint64_t bad_count = 0, read_retries = 0;
  std::vector<BadRecordNote> bad_records;  // the first 100
  std::vector<std::string> warnings;
  double first_batch_seconds = 0;  // since the run's start; 0 = none came
};
std::string pack(const RunPart& part);
Result<RunPart> unpack_run_part(std::string_view bytes);

// Adds the parts, by rank, to `result`: sums, maxima and one row per host. Warnings of other
// processes that differ from those here are added with the process's name.
void merge(const std::vector<RunPart>& parts, RunResult& result);

}  // namespace forebay::emulate
