// Figures from timings: ours, and DLIO's own formulas beside them.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "emulate/result.h"

namespace forebay::emulate {

Spread spread_of(std::span<const double> values, std::string reason_when_empty);

// Of the ranks that have the figure; the median is the lower one of two.
RankQuantiles over_ranks(std::span<const CheckpointRecord> records,
                         const std::function<std::optional<double>(const RankCheckpoint&)>& figure);

// Steps [first, last) that figures are computed from; empty when all are excluded.
struct StepRange {
  uint64_t first = 0, last = 0;
  uint64_t count() const { return last > first ? last - first : 0; }
};
StepRange included_steps(uint64_t steps, uint64_t exclude_start, uint64_t exclude_end);

// DLIO's block figures (its statscounter): T = end - start - time of excluded steps,
// AU = compute of included steps / T, throughput = included steps / T * batch. DLIO 2.0 counts
// (steps - 2) whatever is excluded, a defect that its 3.0 has mended.
struct DlioBlock {
  Figure au, samples_per_second;
  uint64_t steps = 0;
};
DlioBlock dlio_block(const Block& block, uint64_t exclude_start, uint64_t exclude_end,
                     uint64_t epoch_steps, uint64_t batch_size);

// Step-weighted over blocks; AU is the mean over ranks, throughput their sum. After
// summarise_epoch(): where that found no AU to have, there is none here.
void dlio_epoch(EpochResult& epoch, uint64_t exclude_start, uint64_t exclude_end,
                uint64_t batch_size);

// From what the ranks recorded: AU, rates, split.
void summarise_epoch(EpochResult& epoch, bool has_compute, bool has_barrier);

// Means over epochs, cached share, CPU per GB.
void summarise_run(RunResult& result);

}  // namespace forebay::emulate
