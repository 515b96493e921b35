// Collector cpu/perf: where the threads of a process tree run, by sampling their stacks. Without
// privileges it sees the program's own code only.
#pragma once

#include "record/collector.h"

namespace forebay::record {

extern const Backend kCpuPerf;

}  // namespace forebay::record
