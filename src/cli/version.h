// The version of this program.
#pragma once

namespace forebay::cli {

inline constexpr const char* kVersion = FOREBAY_VERSION;
inline constexpr const char* kStartHere = "forebay run demo";

}  // namespace forebay::cli
