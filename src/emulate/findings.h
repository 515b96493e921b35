// What an inspection and a search for the maximum found. Report reads this and nothing of the
// engine.
//
// Values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "emulate/result.h"
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

}  // namespace forebay::emulate
