// The clocks of this host, read together.
//
// Safe to call from any thread.
#pragma once

#include <cstdint>

namespace forebay::sys {

struct ClockReading {
  int64_t monotonic_ns = 0;    // CLOCK_MONOTONIC
  int64_t unix_ns = 0;         // CLOCK_REALTIME at that moment
  int64_t uncertainty_ns = 0;  // both were read within this
};
// The best of a few tries.
ClockReading read_clocks();

int64_t monotonic_ns();

}  // namespace forebay::sys
