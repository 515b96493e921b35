// An inspection for people and for programs.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <string>

#include "emulate/findings.h"

namespace forebay::report {

std::string inspection_text(const emulate::Inspection& inspection);
std::string inspection_json(const emulate::Inspection& inspection);

std::string maximum_text(const emulate::MaximumFound& found);
std::string maximum_json(const emulate::MaximumFound& found);
std::string attempt_line(const emulate::Attempt& attempt);

}  // namespace forebay::report
