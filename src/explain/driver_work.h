// One driver while its time is being owned: what its thread did, and the waits that others must
// explain.
//
// Plain values; for the files behind driver_time.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "explain/driver_time.h"

namespace forebay::explain {

// A wait of a driver that others must explain.
struct Wait {
  size_t segment = 0;  // of the driver's
  int64_t begin_ns = 0, end_ns = 0;
  uint32_t waker = kNone;
  Blame all, by_waker;  // what helpers did meanwhile; what the one that ended it did
  Blame of_workers;     // of `all`: of threads that did some work in their lives
};

// One driver while its time is being owned.
struct Work {
  DriverTime* time = nullptr;
  std::vector<Segment> segments = {};
  std::vector<Wait> waits = {};
  std::vector<std::pair<int64_t, int64_t>> ready = {};  // begin, end
  std::vector<std::pair<int64_t, trace::StackId>> samples = {};
};

bool is_wait(const Segment& segment);

}  // namespace forebay::explain
