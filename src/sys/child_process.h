// A program that this process starts, holds back until it may run, and follows to its end.
//
// One thread at a time. Starting forks: call before other threads hold locks that the child needs
// (between fork and exec the child makes system calls only).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forebay/result.h"
#include "sys/file.h"

namespace forebay::sys {

// The file that would run for `name`: as it is when it holds a '/', else the first on PATH.
// kNotFound when there is none.
Result<std::string> find_program(const std::string& name);

// How a process ended, or that it has not.
struct ProcessEnd {
  bool has_ended = false;
  int exit_code = 0;  // as a shell shows it: 128 + signal when a signal ended it
  int signal = 0;     // that ended it, or 0
};

// A write that a closed pipe or a file size limit refuses is an error that the caller sees, not the
// end of this process. Programs started here get these signals as they were before.
void ignore_signals_of_writing();

class ChildProcess {
 public:
  // Forks a child that waits for release(). Variables replace those of this environment; standard
  // streams, working folder and process group are inherited, blocked signals are not.
  static Result<ChildProcess> start(
      std::vector<std::string> command,
      std::span<const std::pair<std::string, std::string>> environment);
  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&&) noexcept = default;
  ~ChildProcess();  // a child that was never released ends

  int pid() const { return pid_; }

  // Lets it exec. errno of the exec when that failed (the child is gone then), 0 when it runs.
  int release();

 private:
  ChildProcess(int pid, ScopedFd go, ScopedFd failure);

  int pid_ = 0;
  ScopedFd go_, failure_;
};

// A program of our own that writes to a pipe (nvidia-smi): no part of what is observed.
class Helper {
 public:
  // Its standard output comes here; the other streams are /dev/null.
  static Result<Helper> start(std::vector<std::string> command);
  Helper(Helper&& other) noexcept;
  Helper& operator=(Helper&&) = delete;
  ~Helper();  // ends it

  // What it wrote since the last call, without waiting.
  std::string read_more();

 private:
  Helper(int pid, ScopedFd output) : pid_(pid), output_(std::move(output)) {}
  int pid_ = 0;
  ScopedFd output_;
};
bool is_helper(int pid);

// Makes this process the parent of descendants whose own parent ends, so that none gets lost.
void adopt_orphans();

// Takes note of one child that ended: its pid, or 0 when none has, or -1 when there are no
// children.
int reap_child(ProcessEnd& end);

// Sends a signal; nothing happens when the process is gone.
void send_signal(int pid, int signal);

// Whether the process exists and has not ended.
bool is_running(int pid);

}  // namespace forebay::sys
