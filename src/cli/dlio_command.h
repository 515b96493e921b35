// What Forebay does when it is started under the names of DLIO's programs.
//
// One thread; once per process.
#pragma once

#include <span>

#include "forebay/result.h"

namespace forebay::cli {

// Generates, trains, evaluates as the command line asks, with DLIO's output files and lines. The
// exit code is 0 for every run that came to its end, whatever its AU, as DLIO's is.
Result<int> dlio_benchmark(std::span<const char* const> words);

// Prints the value of the key that workload.workflow.query names.
Result<int> dlio_benchmark_query(std::span<const char* const> words);

}  // namespace forebay::cli
