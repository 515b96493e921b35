#include "patience.h"

#include "sys/thread.h"

namespace forebay::python {

Status Patience::start() {
  thread_ = FB_TRY(sys::start_thread("fb-patience", [this](std::stop_token stop) { run(stop); }));
  return {};
}

void Patience::begin(std::stop_source& wait) {
  bool wake = false;
  {
    base::MutexLock lock(mutex_);
    wait_ = &wait;
    ++count_;
    wake = is_asleep_;
  }
  if (wake) began_.notify_one();
}

void Patience::end() {
  base::MutexLock lock(mutex_);
  wait_ = nullptr;
}

void Patience::run(std::stop_token stop) {
  uint64_t seen = 0;
  base::MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (wait_ == nullptr && count_ == seen) {  // nobody waited for a whole turn
      is_asleep_ = true;
      began_.wait(mutex_, stop, [this]() FB_REQUIRES(mutex_) { return wait_ != nullptr; });
      is_asleep_ = false;
    } else if (wait_ != nullptr && count_ == seen) {
      wait_->request_stop();
    }
    seen = count_;
    began_.wait_for(mutex_, stop, kTurn, []() { return false; });
  }
}

}  // namespace forebay::python
