#include "cluster/group.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/mutex.h"
#include "cluster/world.h"

namespace forebay::cluster {
namespace {

// Threads meet; the last one to arrive then meets the other processes while the rest wait.
class Meeting : public Group {
 public:
  Meeting(int size, World* world) : size_(size), world_(world) {}

  int size() const override { return size_; }

  Result<int64_t> barrier_max(int /*member*/, int64_t moment_ns, std::stop_token stop) override {
    bool is_last = false;
    int64_t latest = 0;
    uint64_t round = 0;
    {
      base::MutexLock lock(mutex_);
      if (has_left_) return left_error();
      latest_ = std::max(latest_, moment_ns);
      round = round_;
      is_last = ++arrived_ == size_;
      latest = latest_;
    }
    if (is_last) return finish_round(latest, stop);
    base::MutexLock lock(mutex_);
    // result_ stays valid: nobody can finish the next round before this member joins it.
    const bool met = all_here_.wait(
        mutex_, stop, [&]() FB_REQUIRES(mutex_) { return round_ != round || has_left_; });
    if (round_ != round) return result_;
    if (!met) return fail(ErrorCode::kCancelled, "stopped while waiting for the other members");
    return left_error();
  }

  void leave(int /*member*/, const Error& why) override {
    if (world_ != nullptr) world_->fail(why);
    base::MutexLock lock(mutex_);
    has_left_ = true;
    all_here_.notify_all();
  }

 private:
  Result<int64_t> finish_round(int64_t latest, const std::stop_token& stop) {
    const Result<int64_t> met = world_ == nullptr ? latest : world_->meet(latest, stop);
    base::MutexLock lock(mutex_);
    if (!met.ok()) {
      // A failure of another process is no error of this member.
      has_left_ = true;
      cause_ = met.error().message;
      all_here_.notify_all();
      return left_error();
    }
    result_ = *met;
    latest_ = std::numeric_limits<int64_t>::min();
    arrived_ = 0;
    ++round_;
    all_here_.notify_all();
    return result_;
  }

  Error left_error() const FB_REQUIRES(mutex_) {
    return fail(ErrorCode::kCancelled, "{}",
                cause_.empty() ? "another member has left the run" : cause_);
  }

  const int size_;
  World* const world_;
  mutable base::Mutex mutex_;
  base::CondVar all_here_;
  int arrived_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t round_ FB_GUARDED_BY(mutex_) = 0;
  int64_t latest_ FB_GUARDED_BY(mutex_) = std::numeric_limits<int64_t>::min();
  int64_t result_ FB_GUARDED_BY(mutex_) = 0;
  bool has_left_ FB_GUARDED_BY(mutex_) = false;
  std::string cause_ FB_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Group> make_solo(int size) {
  return std::make_unique<Meeting>(size, nullptr);
}

std::unique_ptr<Group> make_group(World& world, int local_members) {
  return std::make_unique<Meeting>(local_members, &world);
}

}  // namespace forebay::cluster
