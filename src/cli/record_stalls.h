// forebay record --stalls: a program run with synthetic, cold and warm data, in turn and again.
#pragma once

#include "cli/flags.h"
#include "forebay/result.h"

namespace forebay::cli {

// The exit code: that of a program that failed, else 0. Reads the flags of kRecord.
Result<int> record_stalls(const Arguments& arguments);

// kInvalidArgument when a flag is given that belongs to --stalls alone.
Status refuse_stall_flags(const Arguments& arguments);

}  // namespace forebay::cli
