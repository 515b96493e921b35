// Starts threads without exceptions.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "forebay/result.h"

namespace forebay::sys {

// A thread named `name` that runs `body`. kResourceExhausted names the remedy when the system has
// no thread left to give.
Result<std::jthread> start_thread(std::string name, std::function<void(std::stop_token)> body);

// Ends the process at once: no destructors, nothing flushed. For interrupts, after all is written.
[[noreturn]] void exit_now(int code);

}  // namespace forebay::sys
