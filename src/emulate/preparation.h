// What a run finds out before its first step: who takes part, the data and its order, the steps of
// an epoch, and what makes figures doubtful.
//
// One thread, once per run.
#pragma once

#include "emulate/run_state.h"
#include "forebay/result.h"

namespace forebay::emulate {

// Checks that all processes were asked for the same and see the same data, and fills what `run`
// knows before the first step, its warnings included. `run.start_ns` holds this process's start.
//
// Errors: kInvalidArgument when the processes or the options do not fit together, kNotFound when
// data is missing, kResourceExhausted when the system allows too few open files or too little
// memory, and those of the store. Nothing was measured then.
Status prepare(RunState& run);

// The same for a run that reads no data: who takes part, and whether for the same.
Status prepare_without_data(RunState& run);

}  // namespace forebay::emulate
