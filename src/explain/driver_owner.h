// Gives each segment of a driver, and each share of its waits, a part and a cause.
//
// Pure functions of a view.
#pragma once

#include "explain/driver_work.h"
#include "explain/stack_meaning.h"

namespace forebay::explain {

// Fills the pieces, causes and sums of the driver's time. `preparing_share`: of the running code of
// the helpers that was sampled.
void own_driver(const View& view, const StackMeaning& meaning, double preparing_share,
                bool has_other_drivers, Work& work);

}  // namespace forebay::explain
