// Runs what a DLIO configuration asks for and leaves DLIO's files.
//
// One thread; once per process, in all processes of a run alike. Process 0 writes for all.
#pragma once

#include <stop_token>

#include "cli/dlio_config.h"
#include "emulate/runner.h"
#include "forebay/result.h"

namespace forebay::cli {

struct DlioJob {
  DlioConfig config;
  emulate::RunRequest request;  // but for options.out
};

// The exit code.
Result<int> run_dlio(const DlioJob& job, std::stop_token stop);

}  // namespace forebay::cli
