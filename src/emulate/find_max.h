// Searches by running how many accelerators the storage feeds at the workload's gate.
#pragma once

#include <functional>
#include <stop_token>

#include "emulate/findings.h"
#include "emulate/runner.h"

namespace forebay::emulate {

// Doubles from 1 until a count fails, then halves the gap. Counts above `limit`, or above what the
// data set fills one step with, are not tried. With several processes each of them has so many, and
// what is found counts all. The errors are run()'s; kInvalidArgument without
// compute time.
Result<MaximumFound> find_max_accelerators(
    RunRequest request, int limit, Observer& observer,
    const std::function<void(const Attempt&, const RunResult&)>& on_attempt, std::stop_token stop);

}  // namespace forebay::emulate
