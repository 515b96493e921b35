// Moves items from one stage to the next, bounded in items and in bytes.
//
// Any number of threads may push and pop. Two ways to end: close() = no more input, what is queued
// is still delivered; a stop request = abandon now. When ended, push returns false and pop nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace forebay::base {

struct QueueStats {
  uint64_t items = 0;        // pushed so far
  uint64_t bytes = 0;        // pushed so far
  int64_t push_wait_ns = 0;  // producers waited for room, all threads together
  int64_t pop_wait_ns = 0;   // consumers waited for items, all threads together
  size_t items_max = 0;      // most items queued at once
};

template <class T>
class BoundedQueue {
 public:
  // An item larger than bytes_max is accepted when the queue is empty, so nothing can get stuck.
  explicit BoundedQueue(size_t items_max, size_t bytes_max = SIZE_MAX)
      : items_max_(items_max), bytes_max_(bytes_max) {}

  // False when closed or stopped; the item is then dropped.
  bool push(T item, size_t bytes, std::stop_token stop) {
    {
      MutexLock lock(mutex_);
      const auto ready = [&]() FB_REQUIRES(mutex_) { return closed_ || has_room(bytes); };
      if (!ready()) {
        const int64_t start = monotonic_clock().now_ns();
        not_full_.wait(mutex_, stop, ready);
        stats_.push_wait_ns += monotonic_clock().now_ns() - start;
      }
      if (closed_ || stop.stop_requested()) return false;
      entries_.push_back({std::move(item), bytes});
      bytes_queued_ += bytes;
      ++stats_.items;
      stats_.bytes += bytes;
      if (entries_.size() > stats_.items_max) stats_.items_max = entries_.size();
    }
    not_empty_.notify_one();
    return true;
  }

  // Nothing when stopped, or when closed and empty.
  std::optional<T> pop(std::stop_token stop) {
    std::optional<T> item;
    {
      MutexLock lock(mutex_);
      const auto ready = [&]() FB_REQUIRES(mutex_) { return closed_ || !entries_.empty(); };
      if (!ready()) {
        const int64_t start = monotonic_clock().now_ns();
        not_empty_.wait(mutex_, stop, ready);
        stats_.pop_wait_ns += monotonic_clock().now_ns() - start;
      }
      if (entries_.empty() || stop.stop_requested()) return std::nullopt;
      item.emplace(std::move(entries_.front().item));
      bytes_queued_ -= entries_.front().bytes;
      entries_.pop_front();
    }
    not_full_.notify_one();
    return item;
  }

  void close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    not_full_.notify_all();
    not_empty_.notify_all();
  }

  QueueStats stats() const {
    MutexLock lock(mutex_);
    return stats_;
  }

 private:
  struct Entry {
    T item;
    size_t bytes;
  };

  bool has_room(size_t bytes) const FB_REQUIRES(mutex_) {
    if (entries_.empty()) return true;
    return entries_.size() < items_max_ && bytes_queued_ + bytes <= bytes_max_;
  }

  const size_t items_max_;
  const size_t bytes_max_;
  mutable Mutex mutex_;
  CondVar not_full_;
  CondVar not_empty_;
  std::deque<Entry> entries_ FB_GUARDED_BY(mutex_);
  size_t bytes_queued_ FB_GUARDED_BY(mutex_) = 0;
  bool closed_ FB_GUARDED_BY(mutex_) = false;
  QueueStats stats_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::base
