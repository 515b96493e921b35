// Several ranks: their clocks put onto one, and who keeps the others waiting.
//
// Pure functions but for align(), which moves the events of files.
#pragma once

#include "explain/driver_time.h"
#include "explain/explanation.h"

namespace forebay::explain {

// Moves the files of a recording so that collectives (else the ends of equal steps) end together.
// Says what it did and how well it fits.
Alignment align(trace::Recording& recording, const Selection& selection);

// Fills the ranks of `alignment` from the drivers.
void find_stragglers(const View& view, const Explanation& explanation, Alignment& alignment);

}  // namespace forebay::explain
