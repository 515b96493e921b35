// DLIO's own output files, with its keys: summary.json, <rank>_output.json and
// <rank>_per_epoch_stats.json. Figures follow DLIO's definitions; what was not measured is null.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emulate/result.h"

namespace forebay::report {

// File name and content of each.
std::vector<std::pair<std::string, std::string>> dlio_files(const emulate::RunResult& result);

}  // namespace forebay::report
