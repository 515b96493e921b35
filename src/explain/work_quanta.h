// Where iterations end by the CPU time that each computes: a step whose batch was there already
// leaves no wait between it and the one before, but computes as long as the others.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "explain/driver_time.h"

namespace forebay::explain {

// Ends of iterations, in order: of each stretch of computing between two waits that is about as
// long as most, and inside those that are two to four times as long. Nothing where that does not
// fit, or the long ones come so often or so regularly that they are steps of another kind. They may
// come as often as they like where stretches of one, two and three to eight times one length are
// nearly all there are: a loader that is ahead leaves any number of steps without a wait.
// Pieces in which the driver was ready, without a core, part nothing.
std::vector<int64_t> ends_by_work(std::span<const Owned> pieces,
                                  std::span<const CauseKind> kinds_of_causes);

}  // namespace forebay::explain
