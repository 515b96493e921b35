// Runs one workload under several conditions, in turn and again, and says what the differences are:
// prep, fetch, interconnect and network stalls, and the share of the data that memory must hold.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "emulate/findings.h"
#include "emulate/runner.h"

namespace forebay::emulate {

struct DifferentialOptions {
  int repeats = 5;
  uint64_t steps_max = 50;  // of one run; fewer where the data set or the workload has fewer
};

// `on_run` is told, in the middle of talk, what runs now. In a world every process makes the call,
// and process 0's findings are complete; runs that one host is enough for happen there.
//
// Checkpoints and evaluations are left out. A stop gives what whole repeats measured. Errors are
// run()'s, and kInvalidArgument for a workload whose data there is nothing to wait for.
Result<StallsFound> measure_stalls(const RunRequest& request, const DifferentialOptions& options,
                                   const std::function<void(const std::string&)>& on_run,
                                   std::stop_token stop);

}  // namespace forebay::emulate
