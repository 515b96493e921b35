#include "base/clock.h"

#include <chrono>

#include "base/mutex.h"

namespace forebay::base {
namespace {

class MonotonicClock : public Clock {
 public:
  int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  bool sleep_until_ns(int64_t deadline_ns, std::stop_token stop) override {
    // Each sleeper waits on a condition of its own: only its stop token can wake it early.
    std::mutex mutex;
    std::condition_variable_any condition;
    std::unique_lock lock(mutex);
    const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
    condition.wait_until(lock, stop, deadline, [] { return false; });
    return !stop.stop_requested();
  }
};

}  // namespace

Clock& monotonic_clock() {
  static MonotonicClock clock;
  return clock;
}

bool ManualClock::sleep_until_ns(int64_t deadline_ns, std::stop_token stop) {
  if (deadline_ns > now_ns_) now_ns_ = deadline_ns;
  return !stop.stop_requested();
}

}  // namespace forebay::base
