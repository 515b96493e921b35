// Reads the thread of a driver into segments that know what they are for.
//
// Pure functions of a view.
#pragma once

#include <vector>

#include "explain/driver_work.h"
#include "explain/saves.h"
#include "explain/stack_meaning.h"

namespace forebay::explain {

// Fills segments and samples of `work`, and of its time when it had started and its functions.
void read_driver(const View& view, StackMeaning& meaning, const std::vector<Save>& saves,
                 Work& work);

}  // namespace forebay::explain
