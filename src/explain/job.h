// Who trains and who helps: the tracks whose time is broken down, and the threads they wait for.
//
// Pure functions of a view.
#pragma once

#include <vector>

#include "explain/view.h"

namespace forebay::explain {

enum class DriverKind {
  kThread,
  kEmulatedDevice,  // says itself what it does: compute, data wait, barrier
  kAccelerator,     // kernels on streams; a host thread launches them
};

struct DriverPlan {
  trace::TrackId track = trace::kNoId;
  DriverKind kind = DriverKind::kThread;
  trace::TrackId host_thread = trace::kNoId;  // of an accelerator, where there is one
  int rank = -1;
  std::vector<trace::TrackId> helpers = {};  // threads that may work for it
};

struct Job {
  std::vector<DriverPlan> drivers = {};
  std::vector<trace::TrackId> helpers = {};  // of any driver
};

Job find_job(const View& view);

}  // namespace forebay::explain
