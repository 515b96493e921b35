// Decides how many events each thread may have kept one by one when there are more than a recording
// should hold: short calls are thinned, what took long is kept.
//
// One thread at a time.
#pragma once

#include <cstdint>

namespace forebay::record {

// In each window of so many nanoseconds a thread's events are thinned to its budget.
inline constexpr int64_t kThinWindowNs = int64_t{1} << 23;

class Thinning {
 public:
  explicit Thinning(uint64_t events_per_second_max) : max_(events_per_second_max) {}

  // Tells how many events of all threads were kept in the `period_ns` since the last call.
  void update(uint64_t kept, int64_t period_ns);

  // Events of one thread in one window, at least 1.
  uint64_t window_budget() const;
  // Calls that took longer are kept whatever the budget.
  uint64_t below_ns() const { return below_ns_; }

 private:
  static constexpr uint64_t kBelow = 65'536;  // longer than any call that does not wait
  static constexpr uint64_t kSharesMax = 4096;

  const uint64_t max_;
  uint64_t shares_ = 1;  // among how many threads the events are shared out; a power of two
  uint64_t below_ns_ = kBelow;
  int calm_ = 0;  // updates in a row far below the limit
};

}  // namespace forebay::record
