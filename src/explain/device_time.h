// Accelerators: what their streams did, their idle time by what the host did, HTA's figures.
//
// Pure functions of a view.
#pragma once

#include <vector>

#include "explain/activity.h"
#include "explain/explanation.h"
#include "explain/job.h"

namespace forebay::explain {

// Stretches of time, in order, without overlap.
struct Interval {
  int64_t begin_ns = 0, end_ns = 0;
};
using Intervals = std::vector<Interval>;
Intervals merged(Intervals intervals);
int64_t length_of(const Intervals& intervals);
int64_t overlap_of(const Intervals& a, const Intervals& b);

// The device's time from its host's (or its own) first activity to the last: busy stretches once
// however many streams are busy; idle ones as the host's segments.
std::vector<Segment> device_segments(const View& view, const DriverPlan& plan);

std::vector<Accelerator> accelerators_of(const View& view, const Job& job);

// A kernel that moves bytes between ranks: ncclDevKernel_AllReduce, but not vectorized_nccl_like.
bool is_communication_kernel(std::string_view name);

}  // namespace forebay::explain
