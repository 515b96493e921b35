#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/mutex.h"
#include "cluster/group.h"

namespace forebay::cluster {
namespace {

class Solo : public Group {
 public:
  explicit Solo(int size) : size_(size) {}

  int size() const override { return size_; }

  Result<int64_t> barrier_max(int /*member*/, int64_t value, std::stop_token stop) override {
    base::MutexLock lock(mutex_);
    if (has_left_) return left_error();
    maximum_ = std::max(maximum_, value);
    if (++arrived_ == size_) {
      result_ = maximum_;
      maximum_ = std::numeric_limits<int64_t>::min();
      arrived_ = 0;
      ++round_;
      all_here_.notify_all();
      return result_;
    }
    const uint64_t round = round_;
    // result_ stays valid: nobody can finish the next round before this member joins it.
    const bool met = all_here_.wait(
        mutex_, stop, [&]() FB_REQUIRES(mutex_) { return round_ != round || has_left_; });
    if (round_ != round) return result_;
    if (!met) return fail(ErrorCode::kCancelled, "stopped while waiting for the other members");
    return left_error();
  }

  void leave(int /*member*/) override {
    base::MutexLock lock(mutex_);
    has_left_ = true;
    all_here_.notify_all();
  }

 private:
  static Error left_error() {
    return fail(ErrorCode::kCancelled, "another member has left the run");
  }

  const int size_;
  base::Mutex mutex_;
  base::CondVar all_here_;
  int arrived_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t round_ FB_GUARDED_BY(mutex_) = 0;
  int64_t maximum_ FB_GUARDED_BY(mutex_) = std::numeric_limits<int64_t>::min();
  int64_t result_ FB_GUARDED_BY(mutex_) = 0;
  bool has_left_ FB_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<Group> make_solo(int size) {
  return std::make_unique<Solo>(size);
}

}  // namespace forebay::cluster
