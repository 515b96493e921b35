// workload x system -> result: runs the epochs, evaluations and checkpoints a workload asks for.
//
// One run at a time per process is meant; nothing global is kept.
#pragma once

#include <stop_token>

#include "emulate/progress.h"
#include "emulate/result.h"
#include "forebay/result.h"

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
};

// Errors are those found before the first step; nothing was measured then. Later ones, and a stop,
// end the run early and stand in the result, whose finished parts are valid.
Result<RunResult> run(const RunRequest& request, Observer& observer, std::stop_token stop);

}  // namespace forebay::emulate
