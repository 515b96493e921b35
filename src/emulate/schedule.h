// How many steps an epoch has, and when evaluations and checkpoints are due.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forebay/result.h"
#include "workload/workload.h"

namespace forebay::emulate {

struct StepPlan {
  uint64_t steps = 0;     // of each accelerator, per epoch
  uint64_t left_out = 0;  // samples that fill no step
  std::vector<std::string> warnings;
};

// kInvalidArgument with the numbers when an epoch would have no step.
Result<StepPlan> plan_steps(const workload::Workload& workload, int accelerators,
                            uint64_t sample_count);

// DLIO's rule: a positive steps_between_checkpoints wins and counts the steps of each epoch;
// otherwise after epoch checkpoint_after_epoch and every epochs_between_checkpoints after it.
class CheckpointSchedule {
 public:
  explicit CheckpointSchedule(const workload::Workload& workload) : workload_(workload) {}
  bool has_step_saves() const;
  bool is_due_after_step(uint64_t step) const;    // from 1
  bool is_due_after_epoch(uint64_t epoch) const;  // from 1

 private:
  const workload::Workload& workload_;
};

class EvaluationSchedule {
 public:
  explicit EvaluationSchedule(const workload::Workload& workload) : workload_(workload) {}
  bool is_due_after_epoch(uint64_t epoch) const;

 private:
  const workload::Workload& workload_;
};

}  // namespace forebay::emulate
