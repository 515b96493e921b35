// Judges a run: pass or fail, what limited it, and how many accelerators its speed would feed.
#pragma once

#include "emulate/result.h"

namespace forebay::emulate {

// From the finished figures of `result`. Pure.
Verdict judge(const RunResult& result);

}  // namespace forebay::emulate
