// Samples of where threads run, from the kernel's perf events: addresses of the code and of its
// callers, and the files that are mapped where.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "forebay/result.h"

namespace forebay::sys {

struct PerfOptions {
  int hertz = 99;                 // of each CPU second of each thread
  size_t ring_bytes = 512 << 10;  // of each core, a power of two
  bool with_switches = false;     // also when threads leave a core and come back
};

// One of these, in the order in which it happened on each core.
struct PerfRecord {
  enum class Kind { kSample, kMapping, kFork, kExec, kExit, kLost, kSwitchOut, kSwitchIn };
  Kind kind = Kind::kSample;
  int pid = 0, tid = 0;
  int64_t time_ns = 0;  // CLOCK_MONOTONIC

  // kSample: innermost first; kernel_frames of them are the kernel's.
  std::span<const uint64_t> stack;
  size_t kernel_frames = 0;

  // kMapping: code. `path` is "//anon" for memory without a file.
  uint64_t begin = 0, size = 0, file_offset = 0;
  std::string_view path;

  bool is_preempted = false;  // kSwitchOut: it could have gone on

  int parent_pid = 0;  // kFork: also of threads, then it is `pid`
  uint64_t lost = 0;   // kLost: records
};

class PerfSampler {
 public:
  // Samples these threads and all that they start from now on. kUnsupported with the kernel's
  // reason.
  static Result<std::unique_ptr<PerfSampler>> open(std::span<const int> tids, PerfOptions options);
  ~PerfSampler();

  bool sees_kernel() const;   // false: perf_event_paranoid keeps the kernel's addresses back
  bool has_hardware() const;  // CPU cycles, not the software clock

  // Hands over everything that is in the rings; without waiting.
  void read(const std::function<void(const PerfRecord&)>& take);

 private:
  struct Impl;
  explicit PerfSampler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// /proc/sys/kernel/perf_event_paranoid, or 4 where there is none.
int perf_event_paranoid();

}  // namespace forebay::sys
