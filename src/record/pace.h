// When a collector that reads counters should read again: at its rate, but never so often that
// reading takes more than a stated share of one core. What counts is the CPU time of a reading:
// that others took the core meanwhile makes none of it dearer.
//
// One thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sys/process.h"

namespace forebay::record {

class Pace {
 public:
  explicit Pace(int hertz) : every_ns_(1'000'000'000 / std::max(hertz, 1)) {}

  // Polls come about as often as readings are due: one that is nearly due is taken.
  bool is_due(int64_t now_ns) const { return now_ns + every_ns_ / 10 >= next_ns_; }
  // Around each reading; when it is due.
  void begin(int64_t now_ns) {
    began_ns_ = now_ns;
    cpu_began_ns_ = sys::thread_cpu_ns();
  }
  void end() {
    const int64_t cost_ns = (sys::thread_cpu_ns() - cpu_began_ns_) * kCoreShareInverse;
    next_ns_ = began_ns_ + std::max(every_ns_, cost_ns);
  }

 private:
  static constexpr int64_t kCoreShareInverse = 400;  // 0.25 %
  int64_t every_ns_;
  int64_t next_ns_ = 0;
  int64_t began_ns_ = 0, cpu_began_ns_ = 0;  // of the reading under way
};

}  // namespace forebay::record
