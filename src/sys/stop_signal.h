// Ctrl-C, SIGTERM and SIGHUP as a stop request.
//
// One StopSignal per process. Threads started after it inherit the blocked signals, so only its own
// thread receives them.
#pragma once

#include <stop_token>
#include <thread>

namespace forebay::sys {

class StopSignal {
 public:
  // The first signal asks for a stop; the third ends the process at once.
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  bool was_requested() const { return source_.stop_requested(); }

 private:
  std::stop_source source_;
  int event_fd_ = -1;
  std::jthread waiter_;
};

}  // namespace forebay::sys
