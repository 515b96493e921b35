// The accelerators of this process: their engines, their threads while an epoch runs, and what they
// measured.
//
// One thread. Engines read from the run's store: the fleet goes before the RunState.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cluster/group.h"
#include "emulate/accelerator.h"
#include "emulate/epoch_part.h"
#include "emulate/progress.h"
#include "emulate/run_state.h"
#include "forebay/result.h"
#include "loader/engine.h"
#include "sys/network.h"
#include "sys/process.h"

namespace forebay::emulate {

class Fleet {
 public:
  explicit Fleet(RunState& run);

  // One engine over the training data for each accelerator, once the run is prepared.
  Status open_engines();

  // Engines over the evaluation data take the place of those for training, until it ends. When they
  // cannot be opened the fleet is of no more use but for its figures.
  Status begin_evaluation();
  void end_evaluation();
  // Of an epoch with the engines at hand: those of the accelerator, of all processes, that has the
  // most.
  uint64_t steps() const;

  // Runs one epoch on all accelerators and tells the observer how far it is. `part` is what was
  // measured, also when the epoch ended early. The error is
  // that of the first accelerator that failed, or kCancelled.
  Status run(EpochPlan plan, bool is_evaluation, EpochPart& part);

  // Adds what the engines at hand count over their life to run.mine. Once for each of them.
  void take_engine_figures();

 private:
  struct Rank {
    std::unique_ptr<loader::Engine> engine;
    RankEpoch epoch;
    RankTotals totals;
    Status status;
  };
  loader::EngineOptions engine_options(int rank, uint64_t batch_size) const;
  loader::EngineOptions evaluation_options(int rank, uint64_t batch_size) const;
  void start_progress(const EpochPlan& plan, bool is_evaluation);
  void spawn_and_wait(const EpochPlan& plan, cluster::Group& group);
  void tell_progress();
  EpochPart collect(const sys::Usage& before,
                    const std::optional<sys::NetworkBytes>& network_before);
  void note_first_batch(int64_t moment_ns);
  Status first_failure() const;

  RunState& run_;
  int64_t first_batch_ns_ = 0;
  // One allowance of bad records for the whole run.
  const std::shared_ptr<std::atomic<uint64_t>> bad_count_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  Progress progress_;                                      // of this process
  Progress progress_of_all_;                               // process 0
  std::vector<std::unique_ptr<loader::Engine>> training_;  // while an evaluation goes on
  std::vector<Rank> ranks_;
};

}  // namespace forebay::emulate
