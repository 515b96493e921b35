// Plays a training program and records it as a collector would: threads that read, decode, wait and
// compute, each with a clock of its own. For tests and the benchmark.
//
// One thread. The recording is made once, by finish().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trace/facts.h"
#include "trace/reader.h"
#include "trace/recording.h"
#include "trace/writer.h"

namespace forebay::explain {

class ProgramForTest {
 public:
  struct Thread {
    trace::TrackId track = trace::kNoId;
    int64_t now_ns = 0;
    int64_t cpu_ns = 0;  // since the last sample
    int64_t tid = 0;
  };

  explicit ProgramForTest(const std::string& host = "node1", int rank = -1)
      : bytes_(std::make_unique<std::vector<std::byte>>()),
        writer_(std::make_unique<trace::TraceWriter>(
            [bytes = bytes_.get()](std::span<const std::byte> piece) -> Status {
              bytes->insert(bytes->end(), piece.begin(), piece.end());
              return {};
            },
            trace::WriterOptions{1 << 16, 1})),
        rank_(rank) {
    host_ = writer_->add_track(trace::TrackKind::kHost, trace::kNoId, host);
    writer_->fact(trace::fact::kHost, host);
    writer_->fact(trace::fact::kSource, "test");
    writer_->fact(trace::fact::kCores, "4");
    if (rank >= 0) writer_->fact(trace::fact::kRank, std::to_string(rank));
  }

  trace::TraceWriter& writer() { return *writer_; }
  trace::TrackId host() const { return host_; }
  // Samples of running code each so many nanoseconds of CPU time; 0 = nobody samples.
  void sample_each(int64_t period_ns) { period_ns_ = period_ns; }
  // Whom samples name as the caller of the function that runs.
  void called_from(std::string_view caller) { caller_ = caller; }

  trace::TrackId process(int64_t pid, std::string_view name = "train.py") {
    const auto [found, is_new] = processes_.emplace(pid, trace::kNoId);
    if (is_new) {
      found->second = writer_->add_track(trace::TrackKind::kProcess, host_, name, pid, rank_);
    }
    return found->second;
  }
  Thread thread(int64_t pid, int64_t tid, std::string_view name = "python") {
    return {writer_->add_track(trace::TrackKind::kThread, process(pid), name, tid), 1'000'000'000,
            0, tid};
  }

  // A call that lasts; the thread's clock goes on.
  void call(Thread& thread, std::string_view name, trace::Category category, int64_t ns,
            std::initializer_list<trace::Argument> arguments = {}) {
    writer_->add({thread.track, writer_->name(name, category), thread.now_ns, ns}, arguments);
    thread.now_ns += ns;
  }
  trace::Argument file(std::string_view path) {
    return {writer_->key(trace::key::kFile, trace::ArgumentType::kText),
            static_cast<int64_t>(writer_->text(path))};
  }
  trace::Argument number(std::string_view key, int64_t value) { return {writer_->key(key), value}; }

  void open(Thread& thread, std::string_view path, int64_t ns) {
    call(thread, "openat", trace::Category::kMetadata, ns, {file(path)});
  }
  void read(Thread& thread, std::string_view path, int64_t bytes, int64_t ns) {
    call(thread, "read", trace::Category::kRead, ns,
         {file(path), number(trace::key::kBytes, bytes)});
  }
  void write(Thread& thread, std::string_view path, int64_t bytes, int64_t ns) {
    call(thread, "write", trace::Category::kWrite, ns,
         {file(path), number(trace::key::kBytes, bytes)});
  }
  void fsync(Thread& thread, std::string_view path, int64_t ns) {
    call(thread, "fsync", trace::Category::kSync, ns, {file(path)});
  }
  void lock(Thread& thread, int64_t ns) { call(thread, "futex", trace::Category::kLock, ns); }
  void nap(Thread& thread, int64_t ns) { call(thread, "nanosleep", trace::Category::kSleep, ns); }
  // Off the CPU inside a lock, ended by another thread.
  void lock_until(Thread& thread, int64_t until_ns, const Thread& waker) {
    const int64_t ns = until_ns - thread.now_ns;
    if (ns <= 0) return;
    writer_->add({thread.track, writer_->name("futex", trace::Category::kLock), thread.now_ns, ns});
    writer_->add(
        {thread.track, writer_->name("off cpu", trace::Category::kOffCpu), thread.now_ns, ns},
        {{writer_->key(trace::key::kReason, trace::ArgumentType::kText),
          static_cast<int64_t>(writer_->text("futex"))},
         {writer_->key("waker"), waker.tid}});
    thread.now_ns = until_ns;
  }

  // Could run, but others have the cores.
  void lose_core(Thread& thread, int64_t ns) {
    call(thread, "off cpu", trace::Category::kOffCpu, ns,
         {{writer_->key(trace::key::kReason, trace::ArgumentType::kText),
           static_cast<int64_t>(writer_->text("preempted"))}});
  }
  // Who made the recording, when it was not this test: "record", "import kineto".
  void made_by(std::string_view source, std::string_view io = "") {
    writer_->fact(trace::fact::kSource, source);
    if (!io.empty()) writer_->fact("collector.io", io);
  }

  // Runs; the sampler, when there is one, sees `function` of `module`.
  void run(Thread& thread, int64_t ns, std::string_view function = "work",
           std::string_view module = "/bin/train", bool is_python = false) {
    while (period_ns_ > 0 && thread.cpu_ns + ns >= period_ns_) {
      const int64_t until = period_ns_ - thread.cpu_ns;
      thread.now_ns += until;
      ns -= until;
      thread.cpu_ns = 0;
      add_sample(thread, function, module, is_python);
    }
    thread.cpu_ns += ns;
    thread.now_ns += ns;
  }
  // A range that the user names, around what `body` does.
  template <class Body>
  void range(Thread& thread, std::string_view name, trace::Category category, Body&& body,
             std::initializer_list<trace::Argument> arguments = {}) {
    const int64_t begin = thread.now_ns;
    body();
    writer_->add({thread.track, writer_->name(name, category), begin, thread.now_ns - begin},
                 arguments);
  }
  void counter(trace::TrackId track, std::string_view name, int64_t at_ns, double value) {
    writer_->counter(track,
                     writer_->name(name, trace::Category::kUsage, trace::EventKind::kCounter),
                     at_ns, value);
  }

  const std::vector<std::byte>& bytes() const { return *bytes_; }
  void close() { FB_CHECK(writer_->finish().ok()); }
  trace::Recording finish() {
    close();
    return load({this});
  }

  // Several programs as the files of one recording.
  static trace::Recording load(const std::vector<const ProgramForTest*>& programs) {
    std::vector<std::unique_ptr<trace::TraceReader>> readers;
    std::vector<std::string> paths;
    for (const ProgramForTest* program : programs) {
      const std::vector<std::byte>* bytes = program->bytes_.get();
      auto reader = trace::TraceReader::open(
          [bytes](std::span<std::byte> out, uint64_t offset) -> int64_t {
            if (offset >= bytes->size()) return 0;
            const size_t size = std::min(out.size(), bytes->size() - static_cast<size_t>(offset));
            std::copy_n(bytes->begin() + static_cast<std::ptrdiff_t>(offset), size, out.begin());
            return static_cast<int64_t>(size);
          },
          "memory");
      FB_CHECK(reader.ok());
      readers.push_back(std::move(reader).take());
      paths.push_back("program" + std::to_string(paths.size()) + ".fbt");
    }
    auto recording = trace::Recording::read(std::move(readers), std::move(paths));
    FB_CHECK(recording.ok());
    return std::move(recording).take();
  }

 private:
  void add_sample(const Thread& thread, std::string_view function, std::string_view module,
                  bool is_python) {
    const trace::FrameKind kind = is_python ? trace::FrameKind::kPython : trace::FrameKind::kNative;
    const auto frame = [&](std::string_view symbol, uint32_t line) {
      return writer_->frame(
          {kind, writer_->text(symbol), writer_->text(module), writer_->text(""), 0, line});
    };
    const trace::StackId outer = writer_->stack(trace::kNoId, frame(caller_, 1));
    const trace::StackId stack = writer_->stack(outer, frame(function, 88));
    writer_->add(
        {thread.track, writer_->name("sample", trace::Category::kOnCpu, trace::EventKind::kSample),
         thread.now_ns, period_ns_},
        {{writer_->key(trace::key::kStack, trace::ArgumentType::kStack),
          static_cast<int64_t>(stack)}});
  }

  std::unique_ptr<std::vector<std::byte>> bytes_;
  std::unique_ptr<trace::TraceWriter> writer_;
  int rank_;
  trace::TrackId host_ = trace::kNoId;
  std::map<int64_t, trace::TrackId> processes_;
  int64_t period_ns_ = 0;
  std::string caller_ = "main";
};

}  // namespace forebay::explain
