// Variables of the environment, for rooms that may not ask for them themselves.
//
// Safe from any thread as long as nobody changes the environment.
#pragma once

#include <optional>
#include <string>

namespace forebay::sys {

// The value, or nothing when the variable is not set or empty.
std::optional<std::string> environment(const std::string& name);

}  // namespace forebay::sys
