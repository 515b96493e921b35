// Explanations for programs: everything, versioned. docs/formats/explanation.md describes it.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <string>

#include "explain/explanation.h"

namespace forebay::report {

// Pretty-printed, valid JSON: what was not measured is null.
std::string explanation_json(const explain::Explanation& explanation);

}  // namespace forebay::report
