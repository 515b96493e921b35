// Numbers and names of this machine's system calls.
//
// All functions may be called from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forebay::sys {

// Nothing when this architecture or the C library that built us has no such call.
std::optional<int> system_call_number(std::string_view name);
// "pread64"; "system call 777" when the number has no name here.
std::string system_call_name(int number);

}  // namespace forebay::sys
