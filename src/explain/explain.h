// Explains a recording: iterations, breakdown, slow steps, swarms, I/O, devices, ranks, advice.
//
// One call uses up to two threads. Memory beyond the recording: about 32 bytes for each span of the
// threads that train, 24 for each stretch of their time, 16 for each call; lengths are linear in
// the events.
#pragma once

#include <string>

#include "explain/explanation.h"
#include "explain/swarms.h"
#include "explain/view.h"
#include "forebay/result.h"
#include "trace/recording.h"

namespace forebay::explain {

struct Explained {
  Explanation explanation;
  Measured measured;  // for comparing with another recording
};

// Moves the files of a recording of several ranks onto one clock. Fails when the selection matches
// nothing, or no thread can be started.
Result<Explained> explain(trace::Recording& recording, const Selection& selection);

}  // namespace forebay::explain
