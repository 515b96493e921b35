// Whether the bytes that a run read can be those of its samples.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <string>

#include "emulate/result.h"

namespace forebay::emulate {

// The first epoch whose samples take more than twice the bytes that it read, with both numbers; ""
// when there is none. Runs that read no samples, or parts of them, as they were asked to are in
// order.
std::string describe_unread_bytes(const RunResult& result);

}  // namespace forebay::emulate
