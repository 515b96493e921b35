// The figures of a run as DLIO defines and names them, for its files and its log.
//
// Values; pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emulate/result.h"

namespace forebay::report {

// Mean and numpy's deviation (over n, and 0 for one value) of what was measured.
struct DlioSpread {
  std::optional<double> mean, deviation;
};
DlioSpread dlio_spread(const emulate::Spread& spread, double factor = 1);

struct DlioFigures {
  double record_mib = 0;  // nominal, which DLIO's MB/s stand on
  // One per epoch; nothing where it was not measured.
  std::vector<std::optional<double>> train_au, train_rate, eval_au, eval_rate;
  DlioSpread train_au_percent, train_samples_per_second, train_mib_per_second;
  DlioSpread eval_au_percent, eval_samples_per_second, eval_mib_per_second;
  std::optional<bool> train_meets, eval_meets;   // metric.au
  DlioSpread save_gib_per_second, save_seconds;  // by the times of rank 0, as there
  DlioSpread load_gib_per_second, load_seconds;
};

// Of one rank, as it times a save or restore; those of DLIO's reports are rank 0's.
double dlio_checkpoint_seconds(const emulate::CheckpointRecord& record, size_t rank);
// Of all ranks' bytes, in its "GB".
double dlio_checkpoint_rate(const emulate::CheckpointRecord& record, size_t rank);

DlioFigures dlio_figures(const emulate::RunResult& result);

}  // namespace forebay::report
