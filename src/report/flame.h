// Call stacks with the time that stands for each: what the page draws as a flame graph.
//
// Pure functions of the recording.
#pragma once

#include <cstdint>
#include <string>

#include "trace/recording.h"

namespace forebay::report {

struct Flame {
  std::string blob;         // make_blob(): docs/formats/page.md; empty when there is no stack
  uint64_t stacks = 0;      // in the blob, callers included
  int64_t left_out_ns = 0;  // of the rarest stacks, beyond the bound
};

// A page with more stacks than this would be slow to open; the rest is named as left out.
inline constexpr uint64_t kFlameStacksMax = 200'000;

// Of CPU samples.
Flame make_sample_flame(const trace::Recording& recording, uint64_t stacks_max = kFlameStacksMax);

// Of spans that nest on threads, streams and devices: a frame is a span's name, and its own time is
// what its children leave.
Flame make_span_flame(const trace::Recording& recording, uint64_t stacks_max = kFlameStacksMax);

}  // namespace forebay::report
