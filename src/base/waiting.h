// Whether a training loop of this process waits for data right now: what can wait itself, such as
// copying a checkpoint to a slower place, gives way then.
//
// Safe from any thread.
#pragma once

#include <atomic>

namespace forebay::base {

// Relaxed: a hint, nothing hangs on it.
inline std::atomic<int> loops_waiting = 0;

// Somebody waits as long as one lives.
class Waiting {
 public:
  Waiting() { loops_waiting.fetch_add(1, std::memory_order_relaxed); }
  ~Waiting() { loops_waiting.fetch_sub(1, std::memory_order_relaxed); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
};

inline bool is_somebody_waiting() {
  return loops_waiting.load(std::memory_order_relaxed) > 0;
}

}  // namespace forebay::base
