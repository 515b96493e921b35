#include "storage/s3_queue.h"

#include <algorithm>
#include <utility>

namespace forebay::storage {

S3Queue::~S3Queue() {
  client_.loop().post([this] {
    for (const auto& read : reads_) read->cancel();
    base::MutexLock lock(mutex_);
    is_closed_ = true;
    done_ready_.notify_all();
  });
  base::MutexLock lock(mutex_);
  done_ready_.wait(mutex_, std::stop_token(), [&]() FB_REQUIRES(mutex_) { return is_closed_; });
}

void S3Queue::submit(std::span<const Read> reads) {
  bool must_post = false;
  {
    base::MutexLock lock(mutex_);
    for (const Read& read : reads) waiting_.push(read);
    outstanding_ += reads.size();
    must_post = !is_posted_ && !waiting_.empty();
    is_posted_ = is_posted_ || must_post;
  }
  if (!must_post) return;
  client_.loop().post([this] {
    {
      base::MutexLock lock(mutex_);
      is_posted_ = false;
    }
    start_more();
  });
}

size_t S3Queue::reap(std::span<Completion> out, std::stop_token stop) {
  base::MutexLock lock(mutex_);
  if (done_.empty() && outstanding_ > 0 && !is_woken_ && !out.empty()) {
    done_ready_.wait(mutex_, std::move(stop),
                     [&]() FB_REQUIRES(mutex_) { return !done_.empty() || is_woken_; });
  }
  is_woken_ = false;
  const size_t count = std::min(out.size(), done_.size());
  for (size_t i = 0; i < count; ++i) out[i] = done_.pop();
  outstanding_ -= count;
  return count;
}

int S3Queue::set_depth(int depth) {
  const size_t now = std::clamp<size_t>(static_cast<size_t>(std::max(1, depth)), 1, depth_max_);
  const bool is_more = now > depth_.exchange(now, std::memory_order_relaxed);
  if (is_more) submit({});
  return static_cast<int>(now);
}

void S3Queue::wake() {
  {
    base::MutexLock lock(mutex_);
    is_woken_ = true;
  }
  done_ready_.notify_all();
}

void S3Queue::start_more() {
  if (is_starting_) return;
  is_starting_ = true;
  while (in_flight_ < depth_.load(std::memory_order_relaxed)) {
    Read next;
    {
      base::MutexLock lock(mutex_);
      if (waiting_.empty()) break;
      next = waiting_.pop();
    }
    if (free_.empty()) {
      reads_.push_back(std::make_unique<S3Read>(client_, [this](S3Read& read) { done(read); }));
      free_.push_back(reads_.back().get());
    }
    S3Read* read = free_.back();
    free_.pop_back();
    ++in_flight_;
    read->start(next);
  }
  is_starting_ = false;
}

void S3Queue::done(S3Read& read) {
  free_.push_back(&read);
  --in_flight_;
  bool is_first = false;
  {
    base::MutexLock lock(mutex_);
    is_first = done_.empty();
    done_.push(std::move(read.completion()));
  }
  if (is_first) done_ready_.notify_one();
  start_more();
}

}  // namespace forebay::storage
