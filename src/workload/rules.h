// What keys mean together: refusals, warnings, and values that follow from others.
#pragma once

#include "forebay/result.h"
#include "workload/state.h"
#include "workload/workload.h"

namespace forebay::workload {

// Refuses values that need what a later version brings (kUnsupported) and warns about values
// without effect, as the table says.
Status check_support(State& state, const ResolveOptions& options);

// Fills the workload from the values, then checks what no single key can tell.
Result<Workload> make_workload(State& state, const ResolveOptions& options);

}  // namespace forebay::workload
