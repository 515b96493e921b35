// Reads the threads that help drivers, and blames them for the drivers' waits.
//
// Pure functions of a view; helpers are walked on two threads.
#pragma once

#include <vector>

#include "explain/driver_work.h"
#include "explain/stack_meaning.h"
#include "forebay/result.h"

namespace forebay::explain {

// Adds to the waits of `works` what the threads did meanwhile, and fills `uses`, one of each helper
// of the job. The other drivers are read too.
Status read_helpers(const View& view, const Job& job, std::vector<Work>& works,
                    std::vector<HelperUse>& uses);

// Where most of a helper's CPU time was sampled.
void find_helper_function(const View& view, StackMeaning& meaning, HelperUse& use);

}  // namespace forebay::explain
