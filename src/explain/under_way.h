// The calls that had not returned when the recording, or their process, ended; and whether the
// program hangs in one of them.
//
// Pure functions.
#pragma once

#include "explain/explanation.h"
#include "explain/job.h"
#include "explain/view.h"

namespace forebay::explain {

// Reads drivers and iterations of `found`.
//
// A program hangs where a driver's last call takes half of its life, or five seconds and ten
// ordinary steps, and no other thread is busy for a tenth of that. One that waits for others hangs
// where they do: in a file, else in the network, else asleep.
UnderWay under_way_of(const View& view, const Job& job, const Explanation& found);

}  // namespace forebay::explain
