// What `forebay run` and a run under DLIO's name read from the same flags.
//
// One thread.
#pragma once

#include <stop_token>

#include "cli/flags.h"
#include "cli/stop_deadline.h"
#include "emulate/runner.h"
#include "forebay/result.h"
#include "workload/workload.h"

namespace forebay::cli {

// `arguments` are of the command kRun. All but options.out.
Result<emulate::RunOptions> read_run_options(const Arguments& arguments,
                                             const workload::Resolved& resolved);

// workflow.generate_data, and the pause that storage.post_generation_settle_seconds asks for.
Status make_data(const emulate::RunRequest& request, bool quiet, std::stop_token stop);

// How long a stopped run may take to give up what it was writing: data and checkpoints.
StopGrace work_grace(const emulate::RunRequest& request);

}  // namespace forebay::cli
