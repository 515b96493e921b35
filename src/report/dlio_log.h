// The lines that DLIO prints and keeps in dlio.log, in the words that people's scripts look for.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulate/result.h"

namespace forebay::report {

struct DlioLine {
  double seconds = 0;  // since the run's start
  std::string text;
};

// Local time as DLIO writes it: "2026-05-31T14:03:59.120004".
std::string dlio_time(double unix_seconds);

// The steps of an epoch, and what they follow from.
DlioLine dlio_steps_line(const emulate::RunResult& so_far);

DlioLine dlio_epoch_start(uint64_t epoch, bool is_evaluation, uint64_t steps, double seconds);

// Blocks, checkpoints and the end of an epoch or evaluation.
std::vector<DlioLine> dlio_epoch_lines(const emulate::RunResult& so_far,
                                       const emulate::EpochResult& epoch);

// The start and end of a save or restore of a run that does nothing else; `number` counts from 1.
std::vector<DlioLine> dlio_checkpoint_lines(const emulate::CheckpointRecord& record, size_t number);

// One line for every step of accelerator `rank`.
std::vector<DlioLine> dlio_step_lines(const emulate::EpochResult& epoch, size_t rank,
                                      uint64_t batch_size);

// The [METRIC] block; figures that were not measured are nan.
std::string dlio_metrics(const emulate::RunResult& result);

}  // namespace forebay::report
