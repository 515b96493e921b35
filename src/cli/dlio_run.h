// Runs what a DLIO configuration asks for and leaves DLIO's files.
//
// One thread; once per process.
#pragma once

#include <string>

#include "cli/dlio_config.h"
#include "cli/flags.h"
#include "forebay/result.h"
#include "workload/workload.h"

namespace forebay::cli {

// `flags` are those of kRun, `command` is the command line, for the record. The exit code.
Result<int> run_dlio(const DlioConfig& config, const workload::Resolved& resolved,
                     const Arguments& flags, const std::string& command);

}  // namespace forebay::cli
