// For tests only: processes that are threads of one, with clocks that differ.
//
// Safe to use from any thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "cluster/channel.h"
#include "cluster/messaging_world.h"

namespace forebay::cluster {

class ShiftedClock : public base::Clock {
 public:
  explicit ShiftedClock(int64_t shift_ns) : shift_ns_(shift_ns) {}
  int64_t now_ns() const override { return base::monotonic_clock().now_ns() + shift_ns_; }
  bool sleep_until_ns(int64_t deadline_ns, std::stop_token stop) override {
    return base::monotonic_clock().sleep_until_ns(deadline_ns - shift_ns_, std::move(stop));
  }

 private:
  const int64_t shift_ns_;
};

// What the processes of a test have sent and not received.
class Post {
 public:
  explicit Post(int size) : size_(size), boxes_(static_cast<size_t>(size)) {}
  void put(int to, Channel::Message message) {
    const base::MutexLock lock(mutex_);
    boxes_[static_cast<size_t>(to)].push_back(std::move(message));
  }
  std::optional<Channel::Message> take(int rank) {
    const base::MutexLock lock(mutex_);
    auto& box = boxes_[static_cast<size_t>(rank)];
    if (box.empty()) return std::nullopt;
    Channel::Message message = std::move(box.front());
    box.pop_front();
    return message;
  }
  int size() const { return size_; }

 private:
  const int size_;
  base::Mutex mutex_;
  std::vector<std::deque<Channel::Message>> boxes_ FB_GUARDED_BY(mutex_);
};

class PostChannel : public Channel {
 public:
  PostChannel(Post& post, int rank) : post_(post), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return post_.size(); }
  Status send(int to, std::string bytes) override {
    post_.put(to, {rank_, std::move(bytes)});
    return {};
  }
  Result<std::optional<Message>> receive() override { return post_.take(rank_); }
  bool has_unsent() const override { return false; }
  void close(bool /*in_order*/) override {}

 private:
  Post& post_;
  const int rank_;
};

struct TestProcess {
  std::string host;
  int64_t clock_shift_ns = 0;
};

// Runs `body` once for each process, on a thread of its own; returns when all have ended.
inline void run_processes(const std::vector<TestProcess>& processes,
                          const std::function<void(World& world, base::Clock& clock)>& body,
                          double clock_seconds = 60) {
  Post post(static_cast<int>(processes.size()));
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < processes.size(); ++rank)
    threads.emplace_back([&, rank] {
      ShiftedClock clock(processes[rank].clock_shift_ns);
      auto world =
          open_messaging_world(std::make_unique<PostChannel>(post, static_cast<int>(rank)), clock,
                               {.host = processes[rank].host,
                                .cpu_count = 1,
                                .clock_seconds = clock_seconds,
                                .patience_seconds = 0.05},
                               {});
      if (world.ok()) body(**world, clock);
    });
}

}  // namespace forebay::cluster
