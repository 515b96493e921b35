// The checkpoints of a run: process 0 saves them, all processes note them in their result.
//
// One thread at a time: within an epoch the accelerator that saves while the others wait, else the
// thread that called run().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulate/checkpoint_writer.h"
#include "emulate/result.h"
#include "emulate/run_state.h"
#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::emulate {

class CheckpointSaves {
 public:
  explicit CheckpointSaves(RunState& run) : run_(run) {}

  // After step `step` (from 1) of epoch `epoch` (from 1), in process 0 only; the others hear of it
  // with the epoch's figures.
  Status save(uint64_t epoch, uint64_t step);

  // All processes call this: process 0 saves, the others wait for it. Its time counts for the epoch
  // that has just been added to the result.
  Status save_after_epoch(uint64_t epoch);

  // Those that the other processes have not heard of. They count as told from now on.
  std::vector<CheckpointRecord> take_untold();

 private:
  Status share();
  Result<std::unique_ptr<storage::Store>> open_store() const;

  RunState& run_;
  std::unique_ptr<CheckpointWriter> writer_;  // opened by the first save
  size_t told_ = 0;                           // of the result's checkpoints
};

}  // namespace forebay::emulate
