#include "gate.h"

namespace forebay::python {

Gate::Turn Gate::enter() {
  base::MutexLock lock(mutex_);
  const uint64_t mine = next_++;
  left_.wait(mutex_, {}, [&]() FB_REQUIRES(mutex_) { return inside_ == mine; });
  return Turn(this);
}

void Gate::leave() {
  {
    base::MutexLock lock(mutex_);
    ++inside_;
  }
  left_.notify_all();
}

}  // namespace forebay::python
