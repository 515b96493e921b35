// What the recording did not see, and what may be said in spite of it.
//
// Pure functions.
#pragma once

#include <string>

#include "explain/explanation.h"

namespace forebay::explain {

// More unseen time than this decides whether a program is healthy: that needs 90 % of compute.
inline constexpr double kUnseenShare = 0.1;

// Of the time that is shown, what has one cause.
int64_t cause_ns(const Explanation& found, Part part, std::string_view what);

// Of the drivers' time; less is one moment of a program, and says nothing of its training.
inline constexpr int64_t kJudgedNs = 1'000'000;

// The verdict in one sentence.
std::string headline_of(const Explanation& found);

// How to see more, for a recording of this source.
std::string how_to_see(const Explanation& found);
// How to say where steps are, likewise.
std::string how_to_mark(const Explanation& found);

}  // namespace forebay::explain
