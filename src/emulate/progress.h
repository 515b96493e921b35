// How far a run is. Written by accelerators, read by whoever shows it.
//
// Safe to use from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "emulate/result.h"

namespace forebay::emulate {

// Relaxed throughout: figures to look at, they order nothing.
struct Progress {
  std::atomic<uint64_t> epoch{0}, epochs{0};
  std::atomic<uint64_t> steps_done{0}, steps_total{0};  // of this epoch, all accelerators together
  std::atomic<uint64_t> file_bytes{0};                  // of this epoch
  std::atomic<int64_t> compute_ns{0};                   // of this epoch, all accelerators together
  std::atomic<int64_t> epoch_start_ns{0};
  std::atomic<int64_t> last_step_ns{0};  // monotonic: when a step last ended
  std::atomic<bool> is_evaluation{false};
};

// What a run tells while it goes. Called from the thread that called run().
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const RunResult& /*so_far*/) {}
  virtual void on_tick(const Progress& /*progress*/) {}  // about five times a second
  virtual void on_epoch(const RunResult& /*so_far*/, const EpochResult& /*epoch*/) {}
  // All is measured, and what was used to measure it still stands: reads that hang in the storage
  // cannot delay this.
  virtual void on_end(const RunResult& /*result*/) {}
  // Of a run that only saves and restores.
  virtual void on_checkpoint(const RunResult& /*so_far*/, const CheckpointRecord& /*record*/) {}
  virtual void on_note(const std::string& /*text*/) {}  // "evicting 168 files from the page cache"
};

}  // namespace forebay::emulate
