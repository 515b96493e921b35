// SOFA's concurrency breakdown: windows of time by what was used most.
//
// Pure function of a view.
#pragma once

#include "explain/explanation.h"
#include "explain/view.h"

namespace forebay::explain {

Concurrency concurrency_of(const View& view);

}  // namespace forebay::explain
