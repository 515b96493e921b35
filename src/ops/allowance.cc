#include "ops/allowance.h"

#include "base/error.h"
#include "base/units.h"

namespace forebay::ops {

void Allowance::set(uint64_t each_bytes, uint64_t turn_bytes) {
  each_bytes_ = each_bytes;
  turn_bytes_ = turn_bytes;
}

Status Allowance::check(uint64_t bytes) const {
  const uint64_t most = each_bytes_ + turn_bytes_;
  if (bytes <= most) return {};
  has_refused_.store(true, std::memory_order_relaxed);
  return fail(ErrorCode::kUnsupported, "needs {} to decode, and memory leaves {} for that",
              base::format_memory(static_cast<double>(bytes)),
              base::format_memory(static_cast<double>(most)));
}

void Allowance::take_turn() {
  base::MutexLock lock(mutex_);
  ended_.wait(mutex_, {}, [this]() FB_REQUIRES(mutex_) { return !is_taken_; });
  is_taken_ = true;
}

void Allowance::end_turn() {
  {
    base::MutexLock lock(mutex_);
    is_taken_ = false;
  }
  ended_.notify_one();
}

}  // namespace forebay::ops
