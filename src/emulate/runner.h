// workload x system -> result: runs the epochs, evaluations and checkpoints a workload asks for.
//
// One run at a time per process is meant; nothing global is kept.
#pragma once

#include <stop_token>

#include "emulate/progress.h"
#include "emulate/result.h"
#include "forebay/result.h"

namespace forebay::cluster {
class World;
}
namespace forebay::trace {
class Recorder;
}

namespace forebay::emulate {

struct RunRequest {
  workload::Resolved resolved;
  RunOptions options;
  std::string version;
  std::string next_base;  // command without --accelerators, --out, --trace, --payload
  std::string command;    // for the record
  trace::Recorder* recorder = nullptr;
  // The processes that run this together, each with a request of its own that may differ in
  // options.accelerators and options.out only. Null: alone.
  cluster::World* world = nullptr;
};

// In a world of several processes every process returns the same result, merged over all, except
// that only process 0 has the steps of other processes' accelerators. An error found before the
// first step is for the caller to tell the others (World::fail); later ones are told.
//
// Errors are those found before the first step; nothing was measured then. Later ones, and a stop,
// end the run early and stand in the result, whose finished parts are valid.
Result<RunResult> run(const RunRequest& request, Observer& observer, std::stop_token stop);

}  // namespace forebay::emulate
