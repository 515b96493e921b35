// A ReadQueue made of threads that each carry out one read at a time.
//
//   submit --> waiting reads --> thread 0..depth-1 --> finished --> reap
//
// Small quick reads are taken and published several at a time: for a 4 KB file in the page cache
// one lock per read would cost a tenth of the read.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "storage/fifo.h"
#include "storage/store.h"

namespace forebay::storage {

// One thread's way of carrying out reads; keeps its scratch memory between them.
class ReadWorker {
 public:
  virtual ~ReadWorker() = default;
  // Fills status, bytes and visit_ns of `out`; the rest is the pool's.
  virtual void perform(const Read& read, Completion& out) = 0;
};

class PoolQueue final : public ReadQueue {
 public:
  using MakeWorker = std::function<std::unique_ptr<ReadWorker>()>;

  // Calls `make_worker` once per thread. kResourceExhausted when not every thread can be started.
  static Result<std::unique_ptr<ReadQueue>> open(const QueueOptions& options,
                                                 const MakeWorker& make_worker);
  ~PoolQueue() override;

  void submit(std::span<const Read> reads) override;
  size_t reap(std::span<Completion> out, std::stop_token stop) override;
  void wake() override;
  int set_depth(int depth) override;

 private:
  static constexpr size_t kGroupMax = 32;
  struct Group;

  PoolQueue() = default;
  Status start(const QueueOptions& options, const MakeWorker& make_worker);
  // kResourceExhausted when the system gives no thread.
  Status add_thread();
  void work(ReadWorker& worker, size_t number);
  void perform_group(ReadWorker& worker, Group& group);
  // Hands over what is finished and takes the next reads if there are any.
  void exchange(Group& group, size_t number);
  // Waits for finished reads: for the first, or while they come quickly for a useful number of
  // them.
  void wait_for_done(size_t wanted, std::stop_token stop) FB_REQUIRES(mutex_);
  void publish(Group& group) FB_REQUIRES(mutex_);
  void take(Group& group, size_t number) FB_REQUIRES(mutex_);

  base::Mutex mutex_;
  base::CondVar work_ready_;
  base::CondVar done_ready_;
  Fifo<Read> waiting_ FB_GUARDED_BY(mutex_);
  Fifo<Completion> done_ FB_GUARDED_BY(mutex_);
  size_t outstanding_ FB_GUARDED_BY(mutex_) = 0;  // submitted and not yet reaped
  size_t idle_ FB_GUARDED_BY(mutex_) = 0;         // threads that wait for reads
  size_t notify_at_ FB_GUARDED_BY(mutex_) =
      0;  // finished reads the reaper waits for; 0 = it does not
  int64_t typical_gap_ns_ FB_GUARDED_BY(mutex_) = INT64_MAX;  // between two finished reads, lately
  int64_t reaped_ns_ FB_GUARDED_BY(mutex_) = 0;               // when reap() last returned
  bool is_woken_ FB_GUARDED_BY(mutex_) = false;
  // Written under the mutex; also read without it between two reads of a group, where seeing it
  // late only costs time.
  std::atomic<bool> is_closing_ = false;
  size_t active_ FB_GUARDED_BY(mutex_) = 0;  // threads that take reads; the others wait
  base::CondVar activated_;
  MakeWorker make_worker_;
  std::string name_;
  size_t depth_max_ = 0;
  std::vector<std::unique_ptr<ReadWorker>> workers_;
  std::vector<std::jthread> threads_;
};

}  // namespace forebay::storage
