// A ReadQueue that holds reads back until they are due and then gives them to another queue.
//
//   submit --> waiting --(fewer than depth held back)--> by due time --(timer thread: due, wake)-->
//   reap: inner submit, inner reap
//
// The thread that reaps hands due reads on, so the inner queue sees one thread only. Completions
// show the time the read was let in as their start: waiting to be due is part of the read.
#pragma once

#include <functional>
#include <memory>
#include <queue>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "storage/fifo.h"
#include "storage/store.h"

namespace forebay::storage {

// Monotonic times.
struct ReadSchedule {
  int64_t start_ns = 0;  // it is let in
  int64_t due_ns = 0;    // it may be carried out
};

class DelayedQueue final : public ReadQueue {
 public:
  // `schedule` is asked once per read, in the order of submission, when the read is let in: by the
  // submitting thread, or by the timer thread for reads beyond options.depth.
  DelayedQueue(std::unique_ptr<ReadQueue> inner,
               std::function<ReadSchedule(const Read&, int64_t now_ns)> schedule,
               const QueueOptions& options);
  ~DelayedQueue() override;

  void submit(std::span<const Read> reads) override;
  size_t reap(std::span<Completion> out, std::stop_token stop) override;
  void wake() override;
  int set_depth(int depth) override;

 private:
  struct Held {
    Read read;  // its tag is the place in held_
    int64_t start_ns = 0;
    uint64_t tag = 0;  // the caller's
  };
  struct Due {
    int64_t due_ns = 0;
    size_t held = 0;
    bool operator>(const Due& other) const { return due_ns > other.due_ns; }
  };

  void watch(std::stop_token stop);
  void let_in(size_t place, int64_t now_ns) FB_REQUIRES(mutex_);
  // Gives what is due to the inner queue; false when nothing is held back either.
  bool hand_on();
  void wait_for_due(std::stop_token stop);

  std::unique_ptr<ReadQueue> inner_;
  const std::function<ReadSchedule(const Read&, int64_t)> schedule_;
  std::vector<size_t> free_;  // places in held_; the reaping thread's, like the next two
  std::vector<Read> batch_;
  size_t inside_ = 0;  // in the inner queue

  base::Mutex mutex_;
  size_t depth_ FB_GUARDED_BY(mutex_);
  base::CondVar timer_changed_;
  base::CondVar due_changed_;
  std::vector<Held> held_ FB_GUARDED_BY(mutex_);
  Fifo<size_t> waiting_ FB_GUARDED_BY(mutex_);
  std::priority_queue<Due, std::vector<Due>, std::greater<>> timers_ FB_GUARDED_BY(mutex_);
  Fifo<size_t> due_ FB_GUARDED_BY(mutex_);
  bool is_woken_ FB_GUARDED_BY(mutex_) = false;
  std::jthread timer_;
};

}  // namespace forebay::storage
