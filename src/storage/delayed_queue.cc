#include "storage/delayed_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "sys/process.h"

namespace forebay::storage {
namespace {

int64_t now_ns() {
  return base::monotonic_clock().now_ns();
}

}  // namespace

DelayedQueue::DelayedQueue(std::unique_ptr<ReadQueue> inner,
                           std::function<ReadSchedule(const Read&, int64_t)> schedule,
                           const QueueOptions& options)
    : inner_(std::move(inner)),
      schedule_(std::move(schedule)),
      depth_(static_cast<size_t>(std::max(1, options.depth))),
      timer_([this, name = fmt::format("{}-due", options.name)](std::stop_token stop) {
        sys::name_thread(name);
        sys::set_timer_slack_ns(1);  // the default, 50 us, would add to each latency
        watch(std::move(stop));
      }) {}

DelayedQueue::~DelayedQueue() {
  timer_.request_stop();
  timer_.join();
}

void DelayedQueue::submit(std::span<const Read> reads) {
  const int64_t now = now_ns();
  {
    base::MutexLock lock(mutex_);
    for (const Read& read : reads) {
      if (free_.empty()) {
        free_.push_back(held_.size());
        held_.emplace_back();
      }
      const size_t place = free_.back();
      free_.pop_back();
      held_[place] = {read, now, read.tag};
      held_[place].read.tag = place;
      if (timers_.size() < depth_) {
        let_in(place, now);
      } else {
        waiting_.push(place);
      }
    }
  }
  timer_changed_.notify_one();
  hand_on();
}

void DelayedQueue::let_in(size_t place, int64_t now_ns) {
  const ReadSchedule when = schedule_(held_[place].read, now_ns);
  held_[place].start_ns = when.start_ns;
  if (when.due_ns <= now_ns) {
    due_.push(place);
  } else {
    timers_.push({when.due_ns, place});
  }
}

void DelayedQueue::watch(std::stop_token stop) {
  base::MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (timers_.empty()) {
      timer_changed_.wait(mutex_, stop, [&]() FB_REQUIRES(mutex_) { return !timers_.empty(); });
      continue;
    }
    const int64_t next = timers_.top().due_ns;
    const int64_t left = next - now_ns();
    if (left > 0) {
      timer_changed_.wait_for(mutex_, stop, std::chrono::nanoseconds(left),
                              [&]() FB_REQUIRES(mutex_) { return timers_.top().due_ns < next; });
      continue;
    }
    due_.push(timers_.top().held);
    timers_.pop();
    while (!waiting_.empty() && timers_.size() < depth_) let_in(waiting_.pop(), next);
    due_changed_.notify_one();
    inner_->wake();
  }
}

bool DelayedQueue::hand_on() {
  batch_.clear();
  bool is_any_left = false;
  {
    base::MutexLock lock(mutex_);
    while (!due_.empty()) batch_.push_back(held_[due_.pop()].read);
    is_any_left = !timers_.empty();
  }
  if (!batch_.empty()) inner_->submit(batch_);
  inside_ += batch_.size();
  return is_any_left || inside_ > 0;
}

void DelayedQueue::wait_for_due(std::stop_token stop) {
  base::MutexLock lock(mutex_);
  due_changed_.wait(mutex_, std::move(stop),
                    [&]() FB_REQUIRES(mutex_) { return !due_.empty() || is_woken_; });
}

size_t DelayedQueue::reap(std::span<Completion> out, std::stop_token stop) {
  for (;;) {
    {
      base::MutexLock lock(mutex_);
      if (std::exchange(is_woken_, false)) return 0;
    }
    if (!hand_on() || out.empty()) return 0;
    if (inside_ == 0) {
      wait_for_due(stop);
    } else if (const size_t count = inner_->reap(out, stop); count > 0) {
      base::MutexLock lock(mutex_);
      inside_ -= count;
      for (size_t i = 0; i < count; ++i) {
        const Held& held = held_[out[i].tag];
        free_.push_back(out[i].tag);
        out[i].tag = held.tag;
        out[i].started_ns = held.start_ns;
      }
      return count;
    }
    if (stop.stop_requested()) return 0;
  }
}

int DelayedQueue::set_depth(int depth) {
  {
    base::MutexLock lock(mutex_);
    depth_ = static_cast<size_t>(std::max(1, depth));
    const int64_t now = now_ns();
    while (!waiting_.empty() && timers_.size() < depth_) let_in(waiting_.pop(), now);
  }
  timer_changed_.notify_one();
  hand_on();
  inner_->set_depth(depth);
  return depth;
}

void DelayedQueue::wake() {
  {
    base::MutexLock lock(mutex_);
    is_woken_ = true;
  }
  due_changed_.notify_all();
  inner_->wake();
}

}  // namespace forebay::storage
