// What the explainer found in a recording. Report, page and CLI read this and nothing of the
// analyses; docs/formats/explanation.md describes its JSON.
//
// Plain values. Times are integer nanoseconds, counted from the recording's begin where they are
// moments. A figure that was not measured is absent, with a reason beside it, never 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::explain {

// Changes when a field of the JSON changes its meaning.
inline constexpr int kExplanationSchemaVersion = 1;

// Who owns an instant of a driver's time.
enum class Part : uint8_t {
  kCompute = 0,
  kFetchStall = 1,  // waiting for bytes
  kPrepStall = 2,   // waiting for decoding, or doing it itself
  kSyncStall = 3,   // waiting for other ranks
  kCopy = 4,        // between host and device memory, not hidden behind compute
  kCheckpoint = 5,
  kIdle = 6,   // asleep, or nothing was asked of it
  kOther = 7,  // none of these, or not known
};
inline constexpr int kParts = 8;
// "compute", "fetch stall", ...; keys of the JSON are the same with '_'.
std::string_view part_name(Part part);

// Nanoseconds by owner. The parts of a stretch of time add up to its length exactly.
struct Breakdown {
  std::array<int64_t, kParts> ns{};
  int64_t& operator[](Part part) { return ns[static_cast<size_t>(part)]; }
  int64_t operator[](Part part) const { return ns[static_cast<size_t>(part)]; }
  int64_t total_ns() const;
  double share(Part part) const;  // of the total; 0 of nothing
  void add(const Breakdown& more);
};

// One reason inside a part, the largest first: "reads of /data", "decode in worker 4713",
// "waits for a lock", "launching kernels".
struct Cause {
  Part part = Part::kOther;
  std::string what = {};
  int64_t ns = 0;
};

struct Iteration {
  int64_t number = 0;  // the mark's, else its position
  int64_t begin_ns = 0, end_ns = 0;
  Breakdown parts = {};
  bool is_partial = false;      // the recording began or ended inside; not in any statistic
  bool is_epoch_start = false;  // after a gap, or the first of an epoch by marks
  bool has_checkpoint = false;
  bool is_slow = false;  // above the 99th percentile of the complete ones
};

// Whose time is broken down: a training thread, or a device.
struct Driver {
  uint32_t track = 0;     // id in the recording
  std::string name = {};  // "host3 / train.py 4711 / cuda:0"
  bool is_device = false;
  int rank = -1;
  int64_t begin_ns = 0, end_ns = 0;  // its first and last activity
  Breakdown whole = {};              // of begin to end
  Breakdown steps = {};              // of its complete iterations; zeros when none were found
  std::vector<Cause> causes = {};    // of `steps`, or of `whole` when there are no iterations
  std::vector<Iteration> iterations = {};
};

// How iterations were found, over all drivers.
struct Iterations {
  bool is_found = false;
  std::string method = {};                // "marks 'step'", "period of reads", "" when not found
  std::string reason = {};                // why not, when not found
  std::optional<double> confidence = {};  // coverage x regularity x (1 - cv); 1 for marks
  double coverage = 0;                    // of the drivers' time between first and last boundary
  double regularity = 0;                  // of events that are where the pattern wants them
  double cv = 0;                          // of the durations without slow ones
  uint64_t count = 0;                     // complete ones, all drivers
  uint64_t partial = 0;
  int64_t mean_ns = 0, p50_ns = 0, p90_ns = 0, p99_ns = 0, max_ns = 0;
  // With marks: what the search without them would have found.
  std::optional<double> error_against_marks = {};  // of durations, median, as a share
  std::optional<uint64_t> count_without_marks = {};
};

// Slow iterations of one kind, at most half of all, beside the ordinary ones: those of no kind. All
// of complete iterations, all drivers; all means.
struct SlowKind {
  std::string kind = {};  // "epoch start", "checkpoint", "p99"
  uint64_t count = 0;
  int64_t mean_ns = 0;
  int64_t ordinary_ns = 0;       // mean of the ordinary ones
  int64_t excess_ns = 0;         // (mean - ordinary) x count
  Breakdown excess = {};         // mean per slow iteration minus mean per ordinary one; signed
  std::string explanation = {};  // one sentence
  std::optional<uint64_t> every = {};  // periodic: each so many iterations
};

// The steps of a driver go over to another pace during the run. Lengths are without time that the
// thread was ready without a core: how long others keep it says nothing of the program.
struct PaceChange {
  uint64_t first_step = 0;  // of the new pace, by position among the driver's complete steps
  int64_t at_ns = 0;        // when it began
  uint64_t before_n = 0, after_n = 0;
  int64_t before_ns = 0, after_ns = 0;  // medians
  Part part = Part::kOther;             // what changed most, in the same direction
  int64_t part_ns = 0;                  // by so much a step, mean; signed
  double p = 1;  // Mann-Whitney, times the places that were looked at (Bonferroni)
};

// Steps in a row that are longer than the others, which go on before or after as usual. Lengths are
// without time that the thread was ready without a core.
struct SlowPhase {
  uint64_t first_step = 0, last_step = 0;  // by position among the driver's steps, from 1
  int64_t begin_ns = 0, end_ns = 0;
  uint64_t n = 0;                   // ordinary steps in it: without saves and epoch starts
  int64_t ns = 0, ordinary_ns = 0;  // medians: of these, of those outside all phases
  Part part = Part::kOther;         // what grows most
  int64_t part_ns = 0;              // by so much a step, mean
  double p = 1;                     // Mann-Whitney, times the stretches that there are (Bonferroni)
  double factor() const { return static_cast<double>(ns) / static_cast<double>(ordinary_ns); }
};

// SOFA's concurrency breakdown: windows of the host's time by their dominant use, whoever made it;
// the breakdown into parts is of drivers. Shares of windows in [0, 1].
struct Concurrency {
  bool is_measured = false;
  std::string reason = {};  // when not
  int64_t window_ns = 0;
  uint64_t windows = 0;
  struct Shares {
    double user = 0, system = 0, gpu = 0, io_wait = 0, idle = 0;
  };
  Shares by_busiest = {};  // dominated by the busiest core: SOFA's own definition
  Shares by_mean = {};     // by the mean over cores
  int cores = 0;
  // By counters of cores: whoever used them. Without any, by what was sampled of this program.
  bool is_of_host = false;
};

// A group of samples with the same function and call path, or spans of one name. Stable across
// runs.
struct Swarm {
  std::string id = {};      // 16 hexadecimal digits from build id or module, symbol or offset, path
  std::string kind = {};    // "native", "kernel", "python", "device", "operator"
  std::string symbol = {};  // or module+0xoffset
  std::string module = {};
  std::string path = {};                   // callers, the nearest first: "load < worker < run"
  std::string source = {};                 // "train.py:88", or empty
  uint64_t samples = 0;                    // or spans
  int64_t self_ns = 0;                     // CPU time that the samples stand for
  double share = 0;                        // of all swarms of the same origin (samples, or spans)
  std::string main_track = {};             // where most of it ran
  std::vector<int64_t> over_time_ns = {};  // 64 equal pieces of the recording
};

// A swarm, a part, or the iteration itself in two recordings.
struct Change {
  std::string what = {};                        // "iteration", a part's name, or a swarm's symbol
  std::string id = {}, module = {}, path = {};  // of swarms
  double before_ns = 0, after_ns = 0;           // per iteration, mean
  double difference_ns = 0;                     // after - before: signed
  uint64_t before_n = 0, after_n = 0;           // iterations (or windows)
  std::optional<double> p = {};                 // Mann-Whitney, two-sided; absent below 4 on a side
  // Within 5 % false discoveries (Benjamini and Hochberg, over all rows of its list), and large
  // enough for two single runs to show: see kEffectShare.
  bool is_significant = false;
};
struct Comparison {
  std::string against = {};            // the other recording
  std::string unit = {};               // "iteration", or "window of 1 s" where none were found
  std::vector<Change> rows = {};       // iteration, parts, then swarms by absolute difference
  std::vector<Change> functions = {};  // swarms of one function together, by absolute difference
  std::vector<std::string> notes = {};
};

// How one file, folder or format is used. Calls that were counted without their file are one row of
// the files, kNotKept; among folders and formats they are shared out as the kept ones are.
struct IoUse {
  std::string name = {};
  uint64_t files = 0;
  uint64_t opens = 0, reads = 0, writes = 0, metadata = 0, syncs = 0, faults = 0;
  uint64_t errors = 0;
  uint64_t read_bytes = 0, written_bytes = 0;
  std::optional<uint64_t> cache_bytes =
      {};                          // of read_bytes; absent when the recorder could not tell
  uint64_t cache_known_bytes = 0;  // of read_bytes: where it could; not of counted reads
  int64_t read_ns = 0, write_ns = 0, metadata_ns = 0, sync_ns = 0, fault_ns = 0;
  std::optional<double> sequential_share = {};  // of reads; absent without two reads of one file
  std::optional<int64_t> read_p50_ns = {}, read_p99_ns = {}, read_max_ns = {};
  std::optional<uint64_t> read_bytes_p50 = {};
  int64_t total_ns() const { return read_ns + write_ns + metadata_ns + sync_ns + fault_ns; }
  double metadata_share() const;  // of total_ns
};
// The name of what calls were about that were counted and whose file was not kept.
inline constexpr std::string_view kNotKept = "(file not kept)";
struct Io {
  bool is_measured = false;
  std::string reason = {};
  IoUse total = {};
  std::vector<IoUse> files = {}, folders = {}, formats = {};  // by time; at most 1,000 each
  uint64_t files_left_out = 0, folders_left_out = 0;
  std::map<std::string, uint64_t> read_sizes =
      {};                     // "4 KiB": reads of up to that size, powers of two
  uint64_t counted_only = 0;  // calls that were counted and not kept
};

// One disk, from its requests and counters.
struct Disk {
  std::string name = {};
  uint64_t requests = 0, bytes = 0;
  std::optional<double> read_share = {};
  std::optional<int64_t> device_p50_ns = {}, device_p99_ns = {}, device_max_ns = {};
  std::optional<int64_t> queue_mean_ns = {};  // before the device had it
  std::optional<double> busy_share = {};      // of the drivers' time
  std::optional<double> busy_share_in_stalls = {};
  std::optional<double> bytes_per_second = {};  // while busy
  std::optional<double> depth = {};             // mean requests in flight while busy
};
// Reads that reached a disk: where their time went.
struct ReadLatency {
  bool is_measured = false;
  std::string reason = {};
  uint64_t reads = 0;
  int64_t cpu_ns = 0, device_ns = 0, queue_ns = 0, other_ns = 0;  // sums; other: wake-up, run queue
};

// One accelerator by HTA's definitions.
struct Accelerator {
  std::string name = {};
  int rank = -1;
  int64_t span_ns = 0;
  int64_t compute_ns = 0;      // union of compute kernels
  int64_t non_compute_ns = 0;  // busy, with communication or copies only
  int64_t idle_ns = 0;
  int64_t idle_host_wait_ns = 0, idle_kernel_wait_ns = 0, idle_other_ns = 0;
  std::optional<double> communication_overlap = {};  // of communication, hidden behind compute
  std::optional<double> copy_overlap = {};
  int64_t communication_ns = 0, copy_ns = 0;  // unions
  uint64_t copied_bytes = 0, kernels = 0, launches = 0;
  std::optional<double> busy_share_counter = {};  // what the device says itself
};

struct Rank {
  int rank = -1;
  std::string name = {};
  int64_t clock_shift_ns = 0;                     // added to bring it onto the first one's clock
  std::optional<int64_t> clock_residual_ns = {};  // the median that is left
  std::optional<int64_t> mean_step_ns = {};
  std::optional<int64_t> own_work_ns = {};  // per step, without waiting for others
  std::optional<int64_t> lateness_ns = {};  // at collectives, mean behind the first
  std::optional<double> last_share = {};    // of collectives at which it came last
  bool is_straggler = false;
};
struct Alignment {
  std::string method = {};  // "collectives", "marks", "UNIX time", "one clock"
  std::string reason = {};  // why no better one
  uint64_t matched = 0;
  std::optional<int64_t> residual_ns = {};  // worst rank's
  std::vector<Rank> ranks = {};
};

// One row of the table of rules, judged on this recording.
struct Advice {
  enum class State : uint8_t { kApplies, kNotNeeded, kNoEvidence };
  std::string id = {};     // "slow-disk"
  std::string title = {};  // "the disk is slow: busy 97 % at 41 MB/s"
  State state = State::kNoEvidence;
  bool is_warning = false;     // about the measurement or the machine, not the program
  std::string needs = {};      // what it must see
  std::string evidence = {};   // what it saw, with numbers; or what is absent
  std::string threshold = {};  // "device busy >= 80 % of the stalls"
  std::string threshold_source = {};
  std::vector<std::string> remedies = {};  // sentences, commands, code
  std::string gain_formula = {};
  // Of one driver, the mean over all: never more than its time, nor than the mean iteration.
  int64_t gain_ns_per_step = 0;  // of the mean iteration; 0 when there are no iterations
  int64_t gain_ns = 0;           // of the complete iterations, else of the driver's whole time
  double gain_share = 0;         // of the same
};

// A call that had not returned when the recording, or its process, ended.
struct OpenCall {
  std::string what = {};    // "read of /d/1.bin"
  std::string thread = {};  // "train.py 4711, thread decode 4713"
  int64_t begin_ns = 0, ns = 0;
  bool is_of_driver = false;
};
struct UnderWay {
  uint64_t count = 0;
  std::vector<OpenCall> calls = {};  // the longest first, at most 20
  std::string hang = {};             // a sentence, where the program hangs in one of them
};

struct RecordingInfo {
  std::vector<std::string> paths = {};
  std::string source = {}, command = {}, host = {}, exit = {};
  int64_t duration_ns = 0;
  std::optional<int64_t> begin_unix_ns = {};
  uint64_t events = 0, tracks = 0;
  uint64_t dropped = 0;
  bool is_whole = true;  // all files were finished and undamaged
  std::optional<int64_t> overhead_outside_ns = {}, overhead_inside_ns = {};
  std::map<std::string, std::string> facts = {};  // all of the first file
};

struct Explanation {
  RecordingInfo recording = {};
  std::string headline = {};  // one sentence: the verdict
  Iterations iterations = {};
  std::vector<Driver> drivers = {};
  Breakdown whole = {}, steps = {};  // sums over drivers
  std::vector<Cause> causes = {};
  std::vector<SlowKind> slow = {};
  std::optional<PaceChange> pace = {};  // of the first driver, where it changed
  std::vector<SlowPhase> phases = {};   // of the first driver, the first one first
  UnderWay under_way = {};
  Concurrency concurrency = {};
  std::vector<Swarm> swarms = {};  // by self time, at most 500
  std::string swarms_reason = {};  // when there are none
  std::optional<Comparison> comparison = {};
  Io io = {};
  std::vector<Disk> disks = {};
  ReadLatency read_latency = {};
  std::vector<Accelerator> accelerators = {};
  Alignment alignment = {};
  std::vector<Advice> advice = {};  // those that apply by gain, then the others
  std::vector<std::string> warnings = {};
  // The parts of the drivers' time that the explainer believes to be steady state: `steps` when
  // iterations were found, else `whole`.
  const Breakdown& shown() const { return iterations.is_found ? steps : whole; }
};

}  // namespace forebay::explain
