// Searches by running how many accelerators the storage feeds at the workload's gate.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "emulate/runner.h"

namespace forebay::emulate {

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
  bool is_limit_reached = true;   // false: the search stopped at `limit`, more may be fed
  std::vector<Attempt> attempts;  // in the order they were run
  bool is_interrupted = false;
};

// Doubles from 1 until a count fails, then halves the gap. Counts above `limit`, or above what the data
// set fills one step with, are not tried. The errors are run()'s; kInvalidArgument without compute time.
Result<MaximumFound> find_max_accelerators(
    RunRequest request, int limit, Observer& observer,
    const std::function<void(const Attempt&)>& on_attempt, std::stop_token stop);

}  // namespace forebay::emulate
