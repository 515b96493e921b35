// Explanations for people: fits a terminal of 80 columns and, with usual advice, 40 lines.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <string>

#include "explain/explanation.h"
#include "report/text.h"

namespace forebay::report {

struct ExplanationTextOptions {
  TextStyle style = {};
  bool all = false;  // every rule, also those that do not apply, and more rows of each table
};

std::string explanation_text(const explain::Explanation& explanation,
                             const ExplanationTextOptions& options);

// Shows control characters of names from recordings as '?': they must not steer the terminal.
std::string printable(std::string_view text);

}  // namespace forebay::report
