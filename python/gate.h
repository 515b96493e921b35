// Lets callers in one at a time, in the order in which they came: several threads of a program may
// use a loader, which itself serves one.
//
// Any thread, without the GIL: whoever is inside may be waiting for it.
#pragma once

#include <cstdint>
#include <utility>

#include "base/mutex.h"

namespace forebay::python {

class Gate {
 public:
  // Inside from enter() until it goes.
  class Turn {
   public:
    explicit Turn(Gate* gate) : gate_(gate) {}
    Turn(Turn&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Turn& operator=(Turn&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Turn() {
      if (gate_ != nullptr) gate_->leave();
    }

   private:
    Gate* gate_;
  };

  Turn enter();

 private:
  void leave();

  base::Mutex mutex_;
  base::CondVar left_;
  uint64_t next_ FB_GUARDED_BY(mutex_) = 0;    // number that the next caller draws
  uint64_t inside_ FB_GUARDED_BY(mutex_) = 0;  // number that may be inside
};

}  // namespace forebay::python
