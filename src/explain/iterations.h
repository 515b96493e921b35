// Iterations of every driver, by marks or by search, with the parts of each; and why some are slow.
//
// Pure functions.
#pragma once

#include <vector>

#include "explain/driver_time.h"
#include "explain/explanation.h"

namespace forebay::explain {

// Fills iterations, drivers, whole, steps, causes, slow of `out`.
void find_iterations(const View& view, const JobTime& time, Explanation& out);

}  // namespace forebay::explain
