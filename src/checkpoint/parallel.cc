#include "checkpoint/parallel.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "sys/thread.h"

namespace forebay::checkpoint {
namespace {

class Work {
 public:
  Work(size_t count, const std::stop_token& stop, const std::function<Status(size_t)>& work)
      : count_(count), stop_(stop), work_(work) {}

  void run() {
    while (!has_failed_.load(std::memory_order_relaxed)) {
      const size_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= count_) return;
      Status done = stop_.stop_requested() ? fail(ErrorCode::kCancelled, "stopped") : work_(i);
      if (!done.ok()) keep(std::move(done).error());
    }
  }

  Status result() {
    base::MutexLock lock(mutex_);
    if (error_) return *error_;
    return {};
  }

 private:
  void keep(Error error) {
    base::MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
    has_failed_.store(true, std::memory_order_relaxed);  // a hint; the error is under the lock
  }

  const size_t count_;
  const std::stop_token& stop_;
  const std::function<Status(size_t)>& work_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> has_failed_ = false;
  base::Mutex mutex_;
  std::optional<Error> error_ FB_GUARDED_BY(mutex_);
};

}  // namespace

Status for_each_parallel(size_t count, int threads, const std::stop_token& stop,
                         const std::function<Status(size_t)>& work) {
  Work all(count, stop, work);
  {
    std::vector<std::jthread> others;
    const auto wanted = std::min(static_cast<size_t>(std::max(1, threads)), count);
    for (size_t i = 1; i < wanted; ++i) {
      auto thread = sys::start_thread("checkpoint", [&all](const std::stop_token&) { all.run(); });
      if (!thread.ok()) break;  // the others do its work
      others.push_back(std::move(thread).take());
    }
    all.run();
  }
  return all.result();
}

}  // namespace forebay::checkpoint
