// Runs what a DLIO configuration asks for and leaves DLIO's files.
//
// One thread; once per process.
#pragma once

#include <string>

#include "cli/dlio_config.h"
#include "forebay/result.h"
#include "workload/workload.h"

namespace forebay::cli {

// `command` is the command line, for the record. The exit code.
Result<int> run_dlio(const DlioConfig& config, const workload::Resolved& resolved,
                     const std::string& command);

}  // namespace forebay::cli
