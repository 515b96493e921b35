// Collects spans and counters in memory, up to a stated number; what does not fit is counted.
//
// Every method may be called from any thread. Code that may run without tracing takes a `Recorder*`
// and uses the functions of trace/span.h, which cost one branch when it is null.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace forebay::trace {

// 32 bytes, so that a million events take 32 MB.
struct Event {
  int64_t start_ns = 0;
  union {
    int64_t end_ns;        // spans
    double counter_value;  // counters
  };
  int64_t value = -1;  // spans: an optional argument, -1 = none
  uint32_t is_counter : 1;
  uint32_t track : 31;
  int32_t name = 0;
};

class Recorder {
 public:
  explicit Recorder(size_t events_max);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // The id of a track ("accelerator 0", "reader 0/fetch"); the same text gives the same id. Text
  // before the first '/' names the group ("process") that viewers show it under.
  int track(std::string_view name);
  // The id of a span's or counter's name. At most kTextsMax names and as many tracks are kept;
  // later ones share the id of "(other)".
  int name(std::string_view text);

  // Spans of one track must nest. An end before its start is recorded as the start.
  void span(int track, int name, int64_t start_ns, int64_t end_ns, int64_t value = -1);
  // A value that is not finite counts as dropped.
  void counter(int track, int name, int64_t at_ns, double value);

  uint64_t recorded() const { return recorded_.load(std::memory_order_relaxed); }
  // Events that did not fit. Up to 1/8 of events_max may stay unused when many threads record.
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  std::vector<std::string> tracks() const;  // by id
  std::vector<std::string> names() const;   // by id

  // Calls `visitor` with each event recorded before the call: in order for one thread, in no order
  // across threads. Recording may go on meanwhile.
  void visit(const std::function<void(const Event&)>& visitor) const;

  static constexpr size_t kTextsMax = 65536;

 private:
  static constexpr size_t kShards = 16;

  // Texts and their ids, in the order they came.
  struct Interner {
    std::vector<std::string> texts;
    std::unordered_map<std::string, int> ids;
    int intern(std::string_view text);
  };

  struct Chunk {
    std::unique_ptr<Event[]> events;
    size_t capacity = 0, used = 0;
  };

  struct alignas(64) Shard {
    mutable base::Mutex mutex;
    std::vector<Chunk> chunks FB_GUARDED_BY(mutex);
  };

  void add(const Event& event);
  void drop() { dropped_.fetch_add(1, std::memory_order_relaxed); }
  size_t claim();  // events granted to a shard's next chunk; 0 when none are left

  const size_t events_max_;
  std::array<Shard, kShards> shards_;
  // Totals only; they order nothing.
  std::atomic<size_t> claimed_{0};
  std::atomic<uint64_t> recorded_{0};
  std::atomic<uint64_t> dropped_{0};
  mutable base::Mutex texts_mutex_;
  Interner tracks_ FB_GUARDED_BY(texts_mutex_);
  Interner names_ FB_GUARDED_BY(texts_mutex_);
};

}  // namespace forebay::trace
