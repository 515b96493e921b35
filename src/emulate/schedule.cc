#include "emulate/schedule.h"

#include <algorithm>

#include "base/error.h"

namespace forebay::emulate {
namespace {

// Epochs first, first + every, first + 2 * every, ...
bool is_due(uint64_t epoch, uint64_t first, uint64_t every) {
  return epoch >= first && (epoch - first) % std::max<uint64_t>(1, every) == 0;
}

}  // namespace

Result<StepPlan> plan_steps(const workload::Workload& workload, int accelerators,
                            uint64_t sample_count) {
  const uint64_t batch = workload.reader.batch_size;
  const uint64_t step_samples = batch * static_cast<uint64_t>(accelerators);
  StepPlan plan;
  plan.steps = sample_count / step_samples;
  plan.left_out = sample_count % step_samples;
  if (plan.steps == 0)
    return fail(ErrorCode::kInvalidArgument,
                "{} samples do not fill one step of {} accelerator{} x batch {} = {} samples: add "
                "data, or lower reader.batch_size or --accelerators",
                sample_count, accelerators, accelerators == 1 ? "" : "s", batch, step_samples);
  if (const auto cap = workload.train.total_training_steps) {
    if (*cap < plan.steps)
      plan.steps = *cap;
    else if (*cap > plan.steps)
      plan.warnings.push_back(
          fmt::format("train.total_training_steps {} is more than the {} steps an epoch has", *cap,
                      plan.steps));
  }
  if (plan.steps == 0)
    return fail(ErrorCode::kInvalidArgument, "train.total_training_steps is 0: nothing to run");
  return plan;
}

bool CheckpointSchedule::has_step_saves() const {
  return workload_.workflow.checkpoint && workload_.checkpoint.steps_between_checkpoints;
}

bool CheckpointSchedule::is_due_after_step(uint64_t step) const {
  return has_step_saves() && step % *workload_.checkpoint.steps_between_checkpoints == 0;
}

bool CheckpointSchedule::is_due_after_epoch(uint64_t epoch) const {
  return workload_.workflow.checkpoint && !has_step_saves() &&
         is_due(epoch, workload_.checkpoint.checkpoint_after_epoch,
                workload_.checkpoint.epochs_between_checkpoints);
}

bool EvaluationSchedule::is_due_after_epoch(uint64_t epoch) const {
  return workload_.workflow.evaluation && is_due(epoch, workload_.evaluation.eval_after_epoch,
                                                 workload_.evaluation.epochs_between_evals);
}

}  // namespace forebay::emulate
