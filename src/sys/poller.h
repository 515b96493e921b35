// Waits for many sockets at once, and for a call from another thread (epoll and an eventfd).
//
// One thread waits and says what is watched; wake() is for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "forebay/result.h"
#include "sys/file.h"

namespace forebay::sys {

struct PollerEvent {
  int fd = -1;
  bool is_readable = false;
  bool is_writable = false;
  bool is_broken = false;  // an error or a hang-up
};

class Poller {
 public:
  // kResourceExhausted when the process has no descriptor left.
  static Result<std::unique_ptr<Poller>> open();

  // Watches `fd`, or changes what it is watched for. 0 or -errno.
  int watch(int fd, bool for_reading, bool for_writing);
  void forget(int fd);

  // Events of watched sockets, at most out.size(); none after `timeout_ns` (negative: never) or
  // wake(). Milliseconds are the finest step; a timeout is rounded up.
  size_t wait(std::span<PollerEvent> out, int64_t timeout_ns);

  // Makes a wait() under way, or the next one, return at once.
  void wake();

 private:
  Poller(ScopedFd poll, ScopedFd signal) : poll_(std::move(poll)), signal_(std::move(signal)) {}

  ScopedFd poll_;
  ScopedFd signal_;
};

}  // namespace forebay::sys
