// Memory for what samples need while they come into being, shared by runners that work at the same
// time. Each may hold some at any time; beyond that, one after the other may hold more: all
// together never hold more than all of the former and once the latter.
//
// Any thread, but for set().
#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutex.h"
#include "forebay/result.h"

namespace forebay::ops {

class Allowance {
 public:
  explicit Allowance(uint64_t each_bytes, uint64_t turn_bytes = 0)
      : each_bytes_(each_bytes), turn_bytes_(turn_bytes) {}

  // While nobody holds anything.
  void set(uint64_t each_bytes, uint64_t turn_bytes);

  uint64_t each_bytes() const { return each_bytes_; }
  // kUnsupported when nobody may ever hold so much.
  Status check(uint64_t bytes) const;
  // Somebody asked for more than that: a bound may be too small for the data.
  bool has_refused() const { return has_refused_.load(std::memory_order_relaxed); }

  // Waits until nobody else has the turn. Whoever has it must give it back without waiting for
  // another runner.
  void take_turn();
  void end_turn();

 private:
  uint64_t each_bytes_, turn_bytes_;
  mutable std::atomic<bool> has_refused_ = false;  // relaxed: looked at when nobody works
  base::Mutex mutex_;
  base::CondVar ended_;
  bool is_taken_ FB_GUARDED_BY(mutex_) = false;
};

}  // namespace forebay::ops
