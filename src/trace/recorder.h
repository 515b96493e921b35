// Takes spans and counters from many threads and writes them to a trace file without holding the
// threads up: they fill buffers, a thread of the recorder's own sorts, packs and writes.
//
// Every method may be called from any thread, finish() once, when no other thread records any more.
// Code that may run untraced takes a `Recorder*` and records nothing when it is null.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "trace/dictionary.h"
#include "trace/model.h"
#include "trace/writer.h"

namespace forebay::trace {

struct RecorderOptions {
  std::string host;     // its name
  std::string process;  // what this process is: "forebay run"
  int64_t pid = -1;
  int32_t rank = -1;
  // Events that may wait to be written; those that come when so many wait are dropped and counted.
  size_t waiting_max = size_t{1} << 22;
};

class Recorder {
 public:
  // Nothing may have been defined in the writer before.
  Recorder(std::unique_ptr<TraceWriter> writer, const RecorderOptions& options);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Below the process; the same kind and text give the same track.
  TrackId track(TrackKind kind, std::string_view text, int64_t number = -1);
  NameId name(std::string_view text, Category category, EventKind kind = EventKind::kSpan);
  KeyId key(std::string_view text, ArgumentType type = ArgumentType::kInteger);
  TextId text(std::string_view text);
  void fact(std::string_view key, std::string_view value);

  // At most kArgumentsMax arguments. Spans of one track must nest, those of a stream may overlap.
  // An end before its start is recorded as the start.
  void span(TrackId track, NameId name, int64_t start_ns, int64_t end_ns,
            std::initializer_list<Argument> arguments = {});
  // A value that is not finite counts as dropped.
  void counter(TrackId track, NameId name, int64_t at_ns, double value);

  uint64_t recorded() const { return recorded_.load(std::memory_order_relaxed); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // Everything is in the file, and the file is whole.
  Status finish();

  static constexpr size_t kArgumentsMax = 3;

 private:
  static constexpr size_t kShards = 16;
  static constexpr size_t kBufferEvents = 1024;

  struct Entry {
    Event event;
    std::array<Argument, kArgumentsMax> arguments;
    uint8_t argument_count = 0;
  };
  using Buffer = std::vector<Entry>;

  struct alignas(64) Shard {
    base::Mutex mutex;
    Buffer buffer FB_GUARDED_BY(mutex);
  };

  void add(const Entry& entry);
  void hand_over(Buffer buffer);
  void run(const std::stop_token& stop);
  void drain();
  void define();

  const RecorderOptions options_;
  std::unique_ptr<TraceWriter> writer_;  // the thread's own until it was joined
  std::array<Shard, kShards> shards_;
  // Totals only; they order nothing.
  std::atomic<uint64_t> recorded_{0}, dropped_{0};
  std::atomic<size_t> waiting_{0};

  base::Mutex definitions_mutex_;
  DictionaryBuilder definitions_ FB_GUARDED_BY(definitions_mutex_);
  std::map<std::tuple<TrackKind, std::string, int64_t>, TrackId> tracks_
      FB_GUARDED_BY(definitions_mutex_);
  Facts facts_ FB_GUARDED_BY(definitions_mutex_);
  TrackId process_ = kNoId;
  KeyId value_key_ = kNoId;

  base::Mutex full_mutex_;
  base::CondVar full_changed_;
  std::vector<Buffer> full_ FB_GUARDED_BY(full_mutex_);
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace forebay::trace
