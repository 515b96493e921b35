// One emulated accelerator: takes a batch, "computes" until a deadline, meets the others, goes on.
//
// Each accelerator runs on a thread of its own. Accelerators are numbered over all processes of a
// run.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "base/clock.h"
#include "cluster/group.h"
#include "emulate/metrics.h"
#include "emulate/progress.h"
#include "emulate/result.h"
#include "forebay/result.h"
#include "loader/engine.h"
#include "workload/workload.h"

namespace forebay::trace {
class Recorder;
}

namespace forebay::emulate {

struct EpochPlan {
  uint64_t epoch = 0;         // from 0: the order's epoch
  int first_accelerator = 0;  // of this process
  uint64_t steps = 0;
  StepRange included;
  workload::Distribution compute;  // seconds per step
  uint64_t seed = 0;               // of the draws
  bool has_barrier = true;
  int64_t run_start_ns = 0;
  // Whether training stops for a checkpoint after step `step` (from 0), and the saving itself,
  // which the first accelerator of each process does while the others wait. Null: no checkpoints
  // within the epoch.
  std::function<bool(uint64_t step)> checkpoint_due;
  std::function<Status(uint64_t step)> save_checkpoint;
};

struct RankTotals {
  uint64_t steps = 0, samples = 0, skipped = 0, file_bytes = 0, payload_bytes = 0;
  int64_t first_batch_ns = 0;  // monotonic; 0 = none came
};

// Runs one epoch as member `member` of the group: accelerator plan.first_accelerator + member.
// kCancelled when stopped or when another one left; `out` and
// `totals` then hold what was done. Always leaves the group on an error, so that nobody waits for
// it.
//
// Accounting uses the emulated device's own time line: a step's compute begins when the batch was
// there and the device was free, and ends exactly its compute time later. A late wake-up of this
// thread is not charged to the storage unless it exceeds a millisecond, and then to `other`.
Status run_epoch(int member, const EpochPlan& plan, loader::Engine& engine, cluster::Group& group,
                 base::Clock& clock, Progress& progress, trace::Recorder* recorder, RankEpoch& out,
                 RankTotals& totals, std::stop_token stop);

}  // namespace forebay::emulate
