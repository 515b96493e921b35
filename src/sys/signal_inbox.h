// Signals that ask a program to end or to do something, taken one by one instead of interrupting.
//
// Made before other threads start: they inherit the blocked signals. Of several inboxes each takes
// what it is asked first; the signals stay blocked until the first one made goes.
#pragma once

#include <cstdint>
#include <optional>

#include "sys/file.h"

namespace forebay::sys {

struct ReceivedSignal {
  int number = 0;
  // A key on the terminal sends its signal to the whole foreground group; kill(1) to one process.
  bool is_from_terminal = false;
};

class SignalInbox {
 public:
  // INT, TERM, HUP, QUIT, USR1, USR2 and CHLD.
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  // Waits until a signal came or the time is over; CHLD only ends the wait.
  std::optional<ReceivedSignal> wait(int64_t timeout_ns);

 private:
  ScopedFd fd_;
  bool is_first_ = false;
};

bool is_interrupt(int signal);         // SIGINT
const char* signal_name(int signal);   // "SIGKILL"
inline constexpr int kKillSignal = 9;  // SIGKILL

}  // namespace forebay::sys
