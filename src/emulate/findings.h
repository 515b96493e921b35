// What an inspection and a search for the maximum found. Report reads this and nothing of the
// engine.
//
// Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emulate/result.h"
#include "trace/differential.h"
#include "trace/histogram.h"

namespace forebay::emulate {

struct Inspection {
  std::string path;
  std::string format;
  uint64_t files = 0, samples = 0, bytes = 0;
  trace::Histogram file_bytes;
  std::string first_sample;  // "uint8 12107 x 12107", "" when it could not be decoded
  bool is_checked = false;   // every sample was decoded
  uint64_t checked_samples = 0, checked_bytes = 0;
  double check_seconds = 0;
  uint64_t bad_count = 0;
  std::vector<std::string> bad;  // the first 100, with file and cause
  uint64_t problem_count = 0;
  std::vector<std::pair<std::string, std::string>> problems;  // path, reason: the first 100
};

struct Attempt {
  int accelerators = 0;
  Spread au;
  bool passed = false;
  std::string limited_by;
  double cached_share = 0;
  bool is_cached_share_known = false;
};

struct MaximumFound {
  int accelerators = 0;           // the largest count that passed; 0 = not even one
  std::string stopped_by;         // "gate": a count failed; "limit"; "data set": too few samples
  std::vector<Attempt> attempts;  // in the order they were run
  bool is_interrupted = false;
};

// What runs of one workload under several conditions say of its stalls.
struct StallsFound {
  std::string version, command;  // of Forebay; as typed
  std::string workload, data, storage;
  int accelerators = 0, hosts = 0;  // of all processes
  uint64_t batch_size = 0;
  uint64_t steps = 0, steps_excluded = 0;  // of one run, each accelerator; the first ones of these
  uint64_t steps_per_epoch = 0;            // that the data set has
  int repeats_asked = 0, repeats = 0;      // whole ones
  bool is_real_data_on_hosts = false;      // T3 and T4 ran on several hosts
  trace::DifferentialTimes times;
  trace::DifferentialStalls stalls;
  trace::MeasuredRates rates;
  trace::CacheShare cache;
  trace::PaceModel pace;
  Figure cold_cached_share;  // of T3's bytes that no device delivered, the largest over repeats
  Figure warm_cached_share;  // of T4's, the smallest
  std::vector<std::string> notes;  // what makes these figures differ from what one might expect
  bool is_interrupted = false;
};

// The least data set that the rules allow.
struct RequiredSize {
  uint64_t files = 0, samples = 0;
  uint64_t bytes = 0;       // nominal: samples x dataset.record_length_bytes, as the rules count
  uint64_t subfolders = 0;  // 0 = none; no folder then holds more than 131,072 files
  uint64_t steps_per_epoch = 0;                        // that these files give
  uint64_t files_for_memory = 0, files_for_steps = 0;  // the larger of the two decides
  // What mlpstorage's own arithmetic gives: it rounds down, so its data set can miss the rule by
  // part of a file.
  uint64_t reference_files = 0;
  std::optional<uint64_t> disk_bytes;  // the files as they are made; none where nothing can tell
  bool is_disk_bytes_bound = false;    // they take so much at most
  // What one accelerator takes when it never waits; none without a compute time.
  std::optional<double> samples_per_second, bytes_per_second;
};

}  // namespace forebay::emulate
