// What a run measured. Report and compare read this and nothing of the engine.
//
// Values. Times are seconds and sizes bytes unless a name says otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sys/host.h"
#include "trace/histogram.h"
#include "workload/workload.h"

namespace forebay::emulate {

// Changes when a field of result.json changes its meaning.
constexpr int kSchemaVersion = 1;

// A figure, or why there is none. Never 0 for "not measured".
struct Figure {
  std::optional<double> value;
  std::string reason;  // set when there is no value

  static Figure of(double v) { return {v, ""}; }
  static Figure none(std::string why) { return {std::nullopt, std::move(why)}; }
};

// A figure over epochs.
struct Spread {
  std::optional<double> mean, stdev;  // stdev needs two values
  uint64_t n = 0;
  std::string reason;  // set when n is 0
};

// Where the accelerators' time went, in seconds, mean over accelerators. The parts add up to the
// whole.
struct TimeSplit {
  double compute = 0, fetch = 0, decode = 0, sync = 0, checkpoint = 0, other = 0;
  double total() const { return compute + fetch + decode + sync + checkpoint + other; }
  void add(const TimeSplit& more, double weight) {
    compute += more.compute * weight;
    fetch += more.fetch * weight;
    decode += more.decode * weight;
    sync += more.sync * weight;
    checkpoint += more.checkpoint * weight;
    other += more.other * weight;
  }
};

// What held the group back, in seconds: at each barrier the accelerator that came last says what it
// had waited for. `sync` is what is left: unequal compute times. The parts add up to the wall time.
using CriticalSplit = TimeSplit;

// One accelerator's steps between two checkpoints, as DLIO times them.
struct Block {
  double start = 0, end = 0;                // seconds since the run's start
  std::vector<double> load, compute, proc;  // per step, seconds, by the wall clock
  std::vector<TimeSplit> splits;            // per step, by the device's own time line
};

struct RankEpoch {
  std::vector<Block> blocks;
  TimeSplit split;  // included steps only
  TimeSplit last;   // of the steps in which this accelerator came last
  double included_seconds = 0;
  double compute_seconds = 0;  // nominal, included steps only
  uint64_t included_samples = 0, included_file_bytes = 0, included_payload_bytes = 0;
};

// What one accelerator did in a save or a restore; seconds since all began it.
struct RankCheckpoint {
  uint64_t bytes = 0;             // its own
  double seconds = 0;             // as DLIO times it: until its own files were done, or all's were
  double stalled = 0;             // of a save: until training could go on
  std::optional<double> durable;  // of a save: until it was whole on the first tier and synced
  std::optional<double> drained;  // of a save: until it was on the last of several tiers
};

struct CheckpointRecord {
  bool is_restore = false;
  uint64_t epoch = 0, step = 0;  // after this step, both from 1
  uint64_t bytes = 0;            // of all ranks
  double start = 0, end = 0;     // seconds since the run's start
  double seconds = 0;            // until the last rank was done
  bool is_synced = false;
  std::string place{}, path{};          // of the tier, and below it
  std::vector<RankCheckpoint> ranks{};  // by accelerator
  // Of a restore: what of its bytes the page caches held before, or why nobody knows.
  std::optional<uint64_t> cached_bytes{};
  std::string cached_unknown{};
  uint64_t rank_shift = 0;  // rank r restored what rank r + rank_shift had saved
};

// What a checkpoint of this run holds, and what making it takes.
struct StateFacts {
  uint64_t parameters = 0;  // of a transformer; else 0
  uint64_t bytes = 0;       // of all ranks; 0 = the run saves nothing
  uint64_t files = 0;
  uint64_t ranks_of_all = 0;       // more than there are in subset mode
  uint64_t memory_bytes = 0;       // of buffers in this process, at most
  std::vector<std::string> tiers;  // fast to slow, as the stores call themselves
};

// Over the ranks of all saves or restores.
struct RankQuantiles {
  std::optional<double> median, max;
  uint64_t n = 0;
};

// One host's part of an epoch, its processes together.
struct HostEpoch {
  std::string name;
  int processes = 0, accelerators = 0;
  double cpu_seconds = 0;
  uint64_t file_bytes = 0;
  std::optional<uint64_t> device_bytes;
  Figure cached_share;
  // Of all the host's interfaces but loopback, whoever used them.
  std::optional<uint64_t> network_received_bytes, network_sent_bytes;
  std::map<std::string, std::string> meminfo;  // when the epoch ended
};

struct EpochResult {
  uint64_t epoch = 0;  // from 1
  bool is_evaluation = false;
  bool is_complete = true;
  double start = 0, end = 0;    // seconds since the run's start
  uint64_t steps = 0;           // per accelerator
  uint64_t included_steps = 0;  // that figures are computed from
  uint64_t samples = 0, skipped_samples = 0;
  uint64_t file_bytes = 0, payload_bytes = 0;
  Figure au;  // fraction: compute over wall, included steps
  Figure samples_per_second, file_bytes_per_second, payload_bytes_per_second;  // included steps
  Figure dlio_au, dlio_samples_per_second;  // by DLIO's own formulas
  TimeSplit split;
  CriticalSplit critical;
  Figure cached_share;  // of the bytes read, that no device delivered
  std::optional<uint64_t> device_bytes;
  double cpu_seconds = 0;
  Figure cpu_seconds_per_gb;
  trace::Histogram read_ns;
  std::vector<RankEpoch> ranks;
  std::vector<HostEpoch> hosts;
};

// One host's part of a run. The network's bytes are those of the epochs.
struct HostResult {
  sys::Host host;
  std::map<std::string, std::string> cpuinfo, meminfo;  // when the run ended
  std::vector<int> processes;                           // their ranks
  int accelerators = 0;
  double cpu_seconds = 0;
  uint64_t peak_resident_bytes = 0;  // the sum of its processes' peaks
  uint64_t file_bytes = 0;
  std::optional<uint64_t> device_bytes;
  Figure cached_share;
  std::optional<uint64_t> network_received_bytes, network_sent_bytes;
  // Of its monotonic clock against that of process 0's host, and how far from the truth they may
  // be, when the run began and when it ended.
  double clock_offset_seconds = 0, clock_uncertainty_seconds = 0;
  double clock_offset_seconds_at_end = 0, clock_uncertainty_seconds_at_end = 0;
};

struct Verdict {
  enum class Outcome { kPass, kFail, kNotMeasured, kIncomplete };
  Outcome outcome = Outcome::kNotMeasured;
  double gate = 0;             // AU needed, fraction
  Figure au;                   // mean over epochs
  std::string reason;          // one sentence
  std::string limited_by;      // "storage", "client", "memory", "synchronisation", "checkpoint", ""
  std::string limit_evidence;  // the readings behind it
  Figure accelerators_fed;     // at the gate, by the speed seen
  bool is_lower_bound = false;  // the storage was never the limit: at least so many
};

// Whether a run keeps the rules of MLPerf Storage.
struct RulesReport {
  enum class Outcome {
    kValid,    // may be handed in to the closed division
    kOpen,     // only to the open one
    kInvalid,  // to neither
  };
  struct Finding {
    Outcome outcome = Outcome::kInvalid;  // what it makes of the run
    std::string rule;                     // "data set size", "parameters"
    std::string text;                     // one sentence with the numbers
  };
  std::string rules;  // "mlperf-v2.0"
  Outcome outcome = Outcome::kValid;
  std::vector<Finding> findings;         // empty = valid
  std::vector<std::string> notes;        // true, and no violation
  std::vector<std::string> not_checked;  // what one run cannot tell
};

struct RunOptions {
  std::string data;               // folder
  std::string storage = "local";  // store spec
  int accelerators = 1;           // of this process; in a result those of all processes
  bool barrier = true;
  std::string payload = "decode";  // bytes | decode
  std::string cache = "as-is";     // cold | warm | as-is
  std::string on_error = "raise";  // raise | skip | replace
  uint64_t errors_max = UINT64_MAX;
  int decode_threads = 0;  // per accelerator; 0 = reader.read_threads
  std::string out;         // result folder
  std::string rules;       // check against these: "mlperf-v2.0"; "" = none
};

struct DatasetFacts {
  std::string format;
  std::string layout;  // "train/", "folder"
  std::string file_system;
  uint64_t files = 0, samples = 0, bytes = 0, strays = 0, problems = 0;
  std::vector<std::string> problem_examples;
  double index_seconds = 0;
  double order_entropy = 0;
  std::string order;        // "sequential", "full", "windowed (4 shards)"
  uint64_t order_seed = 0;  // train.seed, or what a shuffle `random` drew
  uint64_t fingerprint = 0;
};

struct BadRecordNote {
  std::string path, cause;
};

struct RunResult {
  std::string version;               // of Forebay
  std::string started_at, ended_at;  // UTC, ISO 8601
  double started_unix_seconds = 0;   // of the run's time 0
  std::string next_base;             // the command without the flags that a next step would replace
  std::string command;
  workload::Resolved resolved;
  RunOptions options;
  std::string store;              // what the store says of itself: of an object store, its address
  sys::Host host;                 // of process 0
  std::vector<HostResult> hosts;  // all of them, in the order of their first process
  int processes = 1;
  std::vector<int> process_accelerators;  // by rank; accelerators are numbered in this order
  DatasetFacts dataset, evaluation_dataset;
  uint64_t steps_per_epoch = 0;
  uint64_t samples_left_out = 0;    // per epoch: they do not fill a step of all accelerators
  std::vector<EpochResult> epochs;  // training, then each with its evaluation after it
  StateFacts state;
  std::vector<CheckpointRecord> checkpoints, restores;
  RankQuantiles save_stall_seconds, save_durable_seconds, save_drain_seconds, restore_rank_seconds;
  Spread au, samples_per_second, file_bytes_per_second, payload_bytes_per_second;
  Spread dlio_au, dlio_samples_per_second, checkpoint_seconds, restore_seconds;
  TimeSplit split;  // all training epochs
  CriticalSplit critical;
  Figure cached_share;
  double wall_seconds = 0;
  double start_to_first_batch_seconds = 0;
  double cpu_seconds = 0;
  Figure cpu_seconds_per_gb;
  uint64_t peak_resident_bytes = 0;
  int open_files_max = 0;
  int threads_max = 0;
  trace::Histogram read_ns;
  // Reads begun again after EIO or a stale handle; of an object store every new try of a request.
  uint64_t read_retries = 0;
  uint64_t bad_count = 0;
  std::vector<BadRecordNote> bad_records;
  std::vector<std::string> warnings;
  bool is_interrupted = false;
  std::string stopped_because;  // of an interrupted run: who was asked to stop, or is lost
  std::string error;            // what ended the run early, or ""
  Verdict verdict;
  std::optional<RulesReport> rules;  // when RunOptions::rules asks for it
};

}  // namespace forebay::emulate
