#include "sys/clocks.h"

#include <ctime>

namespace forebay::sys {
namespace {

int64_t read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

int64_t monotonic_ns() {
  return read_clock(CLOCK_MONOTONIC);
}

ClockReading read_clocks() {
  ClockReading best;
  for (int i = 0; i < 3; ++i) {
    const int64_t before = monotonic_ns();
    const int64_t unix_time = read_clock(CLOCK_REALTIME);
    const int64_t after = monotonic_ns();
    if (i > 0 && after - before >= best.uncertainty_ns) continue;
    best = {.monotonic_ns = before + (after - before) / 2,
            .unix_ns = unix_time,
            .uncertainty_ns = after - before};
  }
  return best;
}

}  // namespace forebay::sys
