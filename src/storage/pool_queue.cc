#include "storage/pool_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "sys/process.h"

namespace forebay::storage {
namespace {

// Reads up to this size may share a group.
constexpr uint64_t kSmallBytes = 64 << 10;
// A group should take about this long: results must not wait for slower neighbours.
constexpr int64_t kGroupNs = 100'000;

// A reaper is woken once per read unless reads finish at least this fast; then it waits for
// several, but no longer than kReapWait. Waking a thread costs about as much as reading a small
// cached file.
constexpr int64_t kQuickGapNs = 200'000;
constexpr std::chrono::nanoseconds kReapWait{400'000};

int64_t now_ns() {
  return base::monotonic_clock().now_ns();
}

}  // namespace

// The reads one thread holds, and what became of them.
struct PoolQueue::Group {
  std::array<Read, kGroupMax> reads;
  std::array<Completion, kGroupMax> done;
  size_t count = 0;               // reads taken
  size_t next = 0;                // first read not yet carried out
  size_t unpublished = 0;         // finished, at the front of `done`
  int64_t typical_ns = kGroupNs;  // of this thread's recent small reads
  int64_t cpu_seen_ns = 0;        // the thread's CPU clock when last asked
};

Result<std::unique_ptr<ReadQueue>> PoolQueue::open(const QueueOptions& options,
                                                   const MakeWorker& make_worker) {
  auto queue = std::unique_ptr<PoolQueue>(new PoolQueue());
  FB_TRY(queue->start(options, make_worker));
  return std::unique_ptr<ReadQueue>(std::move(queue));
}

Status PoolQueue::start(const QueueOptions& options, const MakeWorker& make_worker) {
  make_worker_ = make_worker;
  name_ = options.name;
  const auto count = static_cast<size_t>(std::max(1, options.depth));
  depth_max_ = std::max(count, static_cast<size_t>(std::max(0, options.depth_max)));
  workers_.reserve(depth_max_);  // threads use theirs while others are added
  {
    base::MutexLock lock(mutex_);
    active_ = count;
  }
  while (threads_.size() < count) {
    const Status added = add_thread();
    if (!added.ok())
      return fail(ErrorCode::kResourceExhausted,
                  "cannot start read thread {} of {}: {}; lower the depth or raise `ulimit -u`",
                  threads_.size() + 1, count, added.error().message);
  }
  return {};
}

Status PoolQueue::add_thread() {
  const size_t i = threads_.size();
  if (workers_.size() == i) workers_.push_back(make_worker_());
  ReadWorker& worker = *workers_[i];
  try {
    threads_.emplace_back([this, i, &worker, name = fmt::format("{}-{}", name_, i)] {
      sys::name_thread(name);
      work(worker, i);
    });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kResourceExhausted, "{}", error.what());
  }
  return {};
}

int PoolQueue::set_depth(int depth) {
  const size_t wanted = std::clamp<size_t>(static_cast<size_t>(std::max(1, depth)), 1, depth_max_);
  while (threads_.size() < wanted && add_thread().ok()) {
  }
  const size_t active = std::min(wanted, threads_.size());
  {
    base::MutexLock lock(mutex_);
    active_ = active;
  }
  activated_.notify_all();
  work_ready_.notify_all();  // those that wait may be too many now
  return static_cast<int>(active);
}

PoolQueue::~PoolQueue() {
  {
    base::MutexLock lock(mutex_);
    is_closing_ = true;
  }
  work_ready_.notify_all();
  activated_.notify_all();
  threads_.clear();
}

void PoolQueue::submit(std::span<const Read> reads) {
  size_t to_wake = 0;
  {
    base::MutexLock lock(mutex_);
    for (const Read& read : reads) waiting_.push(read);
    outstanding_ += reads.size();
    to_wake = std::min(idle_, reads.size());
  }
  for (size_t i = 0; i < to_wake; ++i) work_ready_.notify_one();
}

size_t PoolQueue::reap(std::span<Completion> out, std::stop_token stop) {
  base::MutexLock lock(mutex_);
  if (done_.empty() && outstanding_ > 0 && !is_woken_ && !out.empty()) {
    wait_for_done(out.size(), std::move(stop));
  }
  is_woken_ = false;
  const size_t count = std::min(out.size(), done_.size());
  for (size_t i = 0; i < count; ++i) out[i] = done_.pop();
  outstanding_ -= count;
  if (count > 0) {
    const int64_t now = now_ns();
    typical_gap_ns_ = (now - reaped_ns_) / static_cast<int64_t>(count);
    reaped_ns_ = now;
  }
  return count;
}

void PoolQueue::wait_for_done(size_t wanted, std::stop_token stop) {
  const auto is_enough = [&]() FB_REQUIRES(mutex_) {
    return done_.size() >= notify_at_ || is_woken_;
  };
  if (typical_gap_ns_ <= kQuickGapNs) {
    // Half of what is under way, so that the threads still have work while the reaper submits more.
    notify_at_ = std::max<size_t>(1, std::min(wanted, outstanding_ / 2));
    done_ready_.wait_for(mutex_, stop, kReapWait, is_enough);
  }
  if (done_.empty() && !is_woken_ && !stop.stop_requested()) {
    notify_at_ = 1;
    done_ready_.wait(mutex_, stop, is_enough);
  }
  notify_at_ = 0;
}

void PoolQueue::wake() {
  {
    base::MutexLock lock(mutex_);
    is_woken_ = true;
  }
  done_ready_.notify_all();
}

void PoolQueue::work(ReadWorker& worker, size_t number) {
  Group group;
  group.cpu_seen_ns = sys::thread_cpu_ns();
  const auto is_closing = [&] { return is_closing_.load(std::memory_order_relaxed); };
  for (;;) {
    exchange(group, number);
    if (group.count == 0) {
      base::MutexLock lock(mutex_);
      // Two places to wait in: a read that is submitted must wake a thread that may take it.
      if (number >= active_) {
        activated_.wait(mutex_, std::stop_token(),
                        [&]() FB_REQUIRES(mutex_) { return is_closing() || number < active_; });
      } else {
        ++idle_;
        work_ready_.wait(mutex_, std::stop_token(), [&]() FB_REQUIRES(mutex_) {
          return is_closing() || number >= active_ || !waiting_.empty();
        });
        --idle_;
      }
      take(group, number);
    }
    if (is_closing_.load(std::memory_order_relaxed)) return;
    perform_group(worker, group);
  }
}

void PoolQueue::exchange(Group& group, size_t number) {
  bool must_notify = false;
  {
    base::MutexLock lock(mutex_);
    const size_t before = done_.size();
    publish(group);
    must_notify = before < notify_at_ && done_.size() >= notify_at_;
    take(group, number);
  }
  if (must_notify) done_ready_.notify_one();
}

void PoolQueue::publish(Group& group) {
  for (size_t i = 0; i < group.unpublished; ++i) done_.push(std::move(group.done[i]));
  group.unpublished = 0;
}

void PoolQueue::take(Group& group, size_t number) {
  group.count = 0;
  group.next = 0;
  if (waiting_.empty() || number >= active_) return;
  // A fair share, so that no read waits behind another while a thread is idle.
  const size_t share = std::max<size_t>(1, waiting_.size() / active_);
  const auto by_time = static_cast<size_t>(kGroupNs / std::max<int64_t>(1, group.typical_ns));
  const size_t limit = std::clamp<size_t>(std::min(share, by_time), 1, kGroupMax);
  do {
    group.reads[group.count++] = waiting_.pop();
  } while (group.count < limit && !waiting_.empty() && waiting_.front().length <= kSmallBytes &&
           group.reads[0].length <= kSmallBytes);
}

void PoolQueue::perform_group(ReadWorker& worker, Group& group) {
  // One clock call between two reads: the end of one is the start of the next.
  const int64_t group_started = now_ns();
  int64_t last = group_started;
  while (group.next < group.count && !is_closing_.load(std::memory_order_relaxed)) {
    const Read& read = group.reads[group.next++];
    Completion& out = group.done[group.unpublished++];
    out.tag = read.tag;
    out.visit_ns = 0;
    out.started_ns = last;
    worker.perform(read, out);
    out.ended_ns = last = now_ns();
    if (last - group_started > 2 * kGroupNs) break;  // the rest would make these wait
  }
  if (group.reads[0].length <= kSmallBytes && group.next > 0) {
    const int64_t each = (last - group_started) / static_cast<int64_t>(group.next);
    group.typical_ns = (3 * group.typical_ns + each) / 4;
  }
  // The thread's CPU clock is a system call: asked once per group and shared out evenly.
  const int64_t cpu = sys::thread_cpu_ns();
  for (size_t i = 0; i < group.unpublished; ++i) {
    group.done[i].cpu_ns = (cpu - group.cpu_seen_ns) / static_cast<int64_t>(group.unpublished);
  }
  group.cpu_seen_ns = cpu;
  if (group.next == group.count) return;
  {
    base::MutexLock lock(mutex_);
    for (size_t i = group.next; i < group.count; ++i) waiting_.push(group.reads[i]);
  }
  work_ready_.notify_all();
}

}  // namespace forebay::storage
