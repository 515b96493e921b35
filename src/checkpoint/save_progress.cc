#include "checkpoint/save_progress.h"

#include <utility>

#include "base/error.h"

namespace forebay {

void SaveHandle::Impl::note_earlier(std::optional<Error> error) {
  base::MutexLock lock(mutex_);
  earlier_ = std::move(error);
}

void SaveHandle::Impl::note_copied(int64_t now_ns) {
  base::MutexLock lock(mutex_);
  times_.stalled = times_.snapshotted = static_cast<double>(now_ns - begun_ns_) * 1e-9;
}

void SaveHandle::Impl::note_durable(int64_t now_ns) {
  base::MutexLock lock(mutex_);
  times_.durable = static_cast<double>(now_ns - begun_ns_) * 1e-9;
  changed_.notify_all();
}

void SaveHandle::Impl::note_drained(int64_t now_ns) {
  base::MutexLock lock(mutex_);
  times_.drained = static_cast<double>(now_ns - begun_ns_) * 1e-9;
  error_.reset();  // of an earlier try
  changed_.notify_all();
}

void SaveHandle::Impl::note_skipped() {
  base::MutexLock lock(mutex_);
  is_skipped_ = true;
  changed_.notify_all();
}

void SaveHandle::Impl::note_failed(const Error& error) {
  base::MutexLock lock(mutex_);
  if (!error_) error_ = error;
  changed_.notify_all();
}

bool SaveHandle::Impl::was_skipped() const {
  base::MutexLock lock(mutex_);
  return is_skipped_;
}

Status SaveHandle::Impl::wait_for(Moment moment, std::stop_token stop) {
  base::MutexLock lock(mutex_);
  const auto has_come = [&]() FB_REQUIRES(mutex_) {
    return is_skipped_ || (moment == Moment::kDurable ? times_.durable : times_.drained) >= 0;
  };
  const auto is_over = [&]() FB_REQUIRES(mutex_) { return has_come() || error_.has_value(); };
  if (!changed_.wait(mutex_, std::move(stop), is_over))
    return fail(ErrorCode::kCancelled, "stopped while step {} was being saved", step_);
  if (has_come()) return {};
  is_told_ = true;
  return *error_;
}

Status SaveHandle::Impl::wait_durable(std::stop_token stop) {
  return wait_for(Moment::kDurable, std::move(stop));
}

Status SaveHandle::Impl::wait_drained(std::stop_token stop) {
  return wait_for(Moment::kDrained, std::move(stop));
}

SaveTimes SaveHandle::Impl::times() const {
  base::MutexLock lock(mutex_);
  return times_;
}

std::optional<Error> SaveHandle::Impl::earlier_failure() const {
  base::MutexLock lock(mutex_);
  return earlier_;
}

std::optional<Error> SaveHandle::Impl::take_untold() {
  base::MutexLock lock(mutex_);
  if (!error_ || std::exchange(is_told_, true)) return std::nullopt;
  return error_;
}

bool SaveHandle::Impl::is_over() const {
  base::MutexLock lock(mutex_);
  return is_skipped_ || times_.drained >= 0 || (error_ && is_told_);
}

SaveHandle::SaveHandle(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

uint64_t SaveHandle::step() const {
  return impl_->step();
}

bool SaveHandle::was_skipped() const {
  return impl_->was_skipped();
}

Status SaveHandle::wait_durable(std::stop_token stop) const {
  return impl_->wait_durable(std::move(stop));
}

Status SaveHandle::wait_drained(std::stop_token stop) const {
  return impl_->wait_drained(std::move(stop));
}

SaveTimes SaveHandle::times() const {
  return impl_->times();
}

std::optional<Error> SaveHandle::earlier_failure() const {
  return impl_->earlier_failure();
}

}  // namespace forebay
