// Time as an argument: code that measures or waits takes a Clock, so that tests can replay it.
//
// Every clock is safe to use from any thread.
#pragma once

#include <cstdint>
#include <stop_token>

namespace forebay::base {

class Clock {
 public:
  virtual ~Clock() = default;

  // Nanoseconds since an arbitrary start; never goes back.
  virtual int64_t now_ns() const = 0;

  // Returns at `deadline_ns` or when a stop is asked for; false means stopped.
  virtual bool sleep_until_ns(int64_t deadline_ns, std::stop_token stop) = 0;
};

// CLOCK_MONOTONIC.
Clock& monotonic_clock();

// Moves only when told to. sleep_until_ns jumps straight to the deadline.
class ManualClock : public Clock {
 public:
  int64_t now_ns() const override { return now_ns_; }
  bool sleep_until_ns(int64_t deadline_ns, std::stop_token stop) override;
  void advance_ns(int64_t ns) { now_ns_ += ns; }

 private:
  int64_t now_ns_ = 0;
};

}  // namespace forebay::base
