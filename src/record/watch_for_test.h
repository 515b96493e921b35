// For tests only: runs a program under one collector and reads back what it wrote.
//
// One thread at a time.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sanitizer.h"
#include "base/test_folder.h"
#include "record/collector.h"
#include "trace/recording.h"

namespace forebay::record {

// The thread sanitizer runs a thread and functions of its own in whatever this test program starts
// from itself: what is counted exactly is then not the program's.
inline constexpr bool kHasForeignThread = base::kHasThreadSanitizer;

// A program that waits before it execs, or a function that waits before it runs.
class WaitingChild {
 public:
  explicit WaitingChild(const std::function<int()>& body) {
    int go[2];
    EXPECT_EQ(pipe(go), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(go[1]);
      char byte = 0;
      if (read(go[0], &byte, 1) != 1) _exit(126);
      close(go[0]);
      _exit(body());
    }
    close(go[0]);
    go_ = go[1];
  }
  ~WaitingChild() {
    release();
    if (!has_ended_) waitpid(pid_, &status_, 0);
  }
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;

  int pid() const { return pid_; }
  void release() {
    if (go_ < 0) return;
    EXPECT_EQ(write(go_, "x", 1), 1);
    close(go_);
    go_ = -1;
  }
  bool has_ended() {
    if (!has_ended_) has_ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    return has_ended_;
  }
  int exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }

 private:
  int pid_ = 0, go_ = -1, status_ = 0;
  bool has_ended_ = false;
};

inline std::function<int()> program(std::vector<std::string> command) {
  return [command = std::move(command)] {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    return 127;
  };
}

struct Watched {
  std::optional<trace::Recording> recording;
  int exit_code = -1;
  int pid = 0;
};

// Runs the body to its end under the collector, a poll every 10 ms, and told so far every 50.
inline Watched watch(const Backend& backend, const std::function<int()>& body,
                     const CollectorOptions& options = {}) {
  Watched out;
  const base::TestFolder folder("watch");
  const std::string path = folder / "trace.fbt";
  {
    auto writer = trace::TraceWriter::create(path).take();
    Tracks tracks(*writer, "test");
    Sink sink{*writer, tracks};
    Target target;
    target.folder = folder.path();
    const std::unique_ptr<Collector> collector = backend.make(options);
    const Status ready = collector->prepare(target);
    EXPECT_TRUE(ready.ok()) << (ready.ok() ? "" : ready.error().message);
    WaitingChild child(body);
    target.pid = out.pid = child.pid();
    const Status begun = collector->begin(target, sink);
    EXPECT_TRUE(begun.ok()) << (begun.ok() ? "" : begun.error().message);
    if (!ready.ok() || !begun.ok()) return out;
    child.release();
    for (int polls = 0; !child.has_ended(); ++polls) {
      EXPECT_TRUE(collector->poll(sink).ok());
      if (polls % 5 == 4) {
        EXPECT_TRUE(collector->tell_so_far(sink).ok());
      }
      poll(nullptr, 0, 10);
    }
    out.exit_code = child.exit_code();
    EXPECT_TRUE(collector->end(sink).ok());
    EXPECT_TRUE(writer->finish().ok());
  }
  auto loaded = trace::Recording::load(std::vector<std::string>{path});
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
  if (loaded.ok()) out.recording.emplace(std::move(loaded).take());
  return out;
}

// One row of a recording as a test asks for it.
struct SeenEvent {
  std::string name, track, file, reason;
  trace::Category category = trace::Category::kOther;
  trace::EventKind kind = trace::EventKind::kSpan;
  trace::TrackId track_id = 0;
  int64_t start_ns = 0, duration_ns = 0;
  int64_t bytes = trace::kNoValue, offset = trace::kNoValue, cache_bytes = trace::kNoValue,
          error = trace::kNoValue, count = trace::kNoValue, total_ns = trace::kNoValue,
          waker = trace::kNoValue, child = trace::kNoValue, tid = trace::kNoValue,
          stack = trace::kNoValue, unfinished = trace::kNoValue;
};

inline std::vector<SeenEvent> all_events(const trace::Recording& recording) {
  using trace::ArgumentType;
  std::vector<SeenEvent> out;
  const trace::Dictionary& words = recording.dictionary();
  const auto cell = [&](std::string_view key, ArgumentType type, trace::TrackId track,
                        size_t index) {
    const auto id = recording.find_key(key, type);
    if (!id) return trace::kNoValue;
    const auto column = recording.column(*id, track);
    return column.empty() ? trace::kNoValue : column[index];
  };
  const auto text = [&](std::string_view key, trace::TrackId track, size_t index) {
    const int64_t id = cell(key, ArgumentType::kText, track, index);
    return id == trace::kNoValue ? std::string() : words.texts[static_cast<size_t>(id)];
  };
  for (trace::TrackId track = 0; track < words.tracks.size(); ++track) {
    const auto rows = recording.rows(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      const size_t i = row - rows.first;
      const auto number = [&](std::string_view key) {
        return cell(key, ArgumentType::kInteger, track, i);
      };
      SeenEvent e;
      e.name = recording.text(row);
      e.track = recording.track_path(track);
      e.track_id = track;
      e.category = recording.name(row).category;
      e.kind = recording.name(row).kind;
      e.start_ns = recording.start(row);
      e.duration_ns = recording.duration(row);
      e.file = text(trace::key::kFile, track, i);
      e.reason = text(trace::key::kReason, track, i);
      e.bytes = number(trace::key::kBytes);
      e.offset = number(trace::key::kOffset);
      e.cache_bytes = number(trace::key::kCacheBytes);
      e.error = number(trace::key::kError);
      e.count = number(trace::key::kCount);
      e.total_ns = number("total_ns");
      e.waker = number("waker");
      e.child = number("child");
      e.tid = number("tid");
      e.unfinished = number(trace::key::kUnfinished);
      e.stack = cell(trace::key::kStack, ArgumentType::kStack, track, i);
      out.push_back(std::move(e));
    }
  }
  return out;
}

}  // namespace forebay::record
