// The version of this program, and what a newcomer types first.
#pragma once

namespace forebay::cli {

extern const char* const kVersion;
extern const char* const kStartHere;

}  // namespace forebay::cli
