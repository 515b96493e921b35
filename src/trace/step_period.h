// How long a step takes, by the steps that a recording marks.
//
// Pure function; safe to call from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "trace/recording.h"

namespace forebay::trace {

struct StepPeriod {
  double seconds = 0;  // from the beginning of a step to that of the next, mean
  uint64_t steps = 0;  // of the tracks together
  int tracks = 0;      // that have steps: a thread, an accelerator
};

// Over tracks with three steps or more, each counting alike. The first 5 steps of a track, or a
// fifth of fewer, warm up and do not count. Nothing where no track has as many.
std::optional<StepPeriod> step_period(const Recording& recording);

}  // namespace forebay::trace
