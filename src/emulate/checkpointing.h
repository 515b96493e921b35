// The checkpoints of a run, saved and restored by all its ranks together: through the tiers,
// manifests and drains of the checkpoint room, with states that are made while they are written.
//
//   save      each rank writes its files into the first tier; when all are there one manifest makes
//             them a checkpoint, and training goes on while the drain copies it to the other tiers
//   restore   each rank reads files of its own, or of the rank that recovery_rank_shift says, from
//   the
//             fastest tier that has them; what of them is in the page cache is counted before
//
// Every process makes the same calls in the same order, on one thread at a time: within an epoch
// that of its first accelerator, while the others wait, else the thread that called run(). An error
// ends the run; nothing of an unfinished save is left then, as far as its process lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "checkpoint/drainer.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tier.h"
#include "emulate/checkpoint_trace.h"
#include "emulate/rank_files.h"
#include "emulate/result.h"
#include "emulate/run_state.h"
#include "emulate/state_payload.h"
#include "forebay/checkpoint.h"
#include "forebay/result.h"
#include "workload/model_states.h"

namespace forebay::emulate {

class Checkpointing {
 public:
  explicit Checkpointing(RunState& run)
      : run_(run), trace_(run.request.recorder), pauses_(run.workload.train.seed) {}

  // Before the first step, once the processes have met: opens the tiers and fills the result's
  // `state`. kInvalidArgument when these ranks cannot hold the model, kResourceExhausted when the
  // checkpoints will not fit, kNotFound when one that is to be restored will not be there.
  Status prepare();

  // After step `step` (from 1) of epoch `epoch` (from 1). The result has its record then.
  Status save(uint64_t epoch, uint64_t step);
  // The same, as part of the epoch that was just added to the result.
  Status save_after_epoch(uint64_t epoch);
  // All that the workload asks for of a run that does nothing else.
  Status save_and_restore();

  // Waits until every save is on the last tier; the records then say how long that took.
  Status finish_drains();

  // Requests so far that were tried again, by all tiers.
  uint64_t retries() const;

 private:
  struct Found {  // what is restored
    size_t tier = 0;
    checkpoint::SaveName name;
  };
  struct Pending {      // not known yet to be on the last tier
    size_t record = 0;  // of the result's checkpoints
    int64_t start_ns = 0;
    checkpoint::SaveName name;
    std::shared_ptr<SaveHandle::Impl> progress;
  };
  // What this process says of a save or restore: moments on the run's time line.
  struct Part;

  Status open_tiers();
  Status agree_on_names();
  Status check_before();
  Status check_room(checkpoint::Tier& tier, uint64_t saves) const;
  Status check_readable() const;
  uint64_t memory_bytes() const;
  uint64_t rank_shift() const;

  Status restore(uint64_t step);
  Result<Found> find(uint64_t step) const;
  Result<std::vector<std::vector<const checkpoint::Shard*>>> shards_to_read(
      const checkpoint::Manifest& manifest, const Found& found) const;
  Status measure_cache(const Found& found,
                       const std::vector<std::vector<const checkpoint::Shard*>>& shards,
                       CheckpointRecord& record);
  Status pause();
  Status on_ranks(std::string_view doing, uint64_t bytes,
                  const std::function<Status(size_t rank, const std::stop_token& stop)>& work);
  Result<checkpoint::Manifest> write_all(const checkpoint::SaveName& name, Part& part);
  Result<checkpoint::Manifest> commit(const checkpoint::SaveName& name, checkpoint::Manifest mine);
  void trace_drains(const Pending& pending) const;
  void discard(const checkpoint::SaveName& name);
  void remove_replaced(checkpoint::Tier& tier, const checkpoint::SaveName& name) const;
  Status gather(const Part& part, CheckpointRecord& record);
  // By accelerator of this process, counted over all processes.
  size_t rank_of(size_t local) const { return static_cast<size_t>(run_.first_accelerator) + local; }
  size_t local_count() const { return static_cast<size_t>(run_.options.accelerators); }

  RunState& run_;
  const CheckpointTrace trace_;
  std::shared_ptr<RankGroup> group_;  // of the processes
  std::unique_ptr<workload::ModelStates> states_;
  std::vector<std::vector<workload::StateFile>> files_;  // by local accelerator
  std::vector<std::unique_ptr<StatePayload>> payloads_;  // the same; made by the first save
  std::vector<std::unique_ptr<checkpoint::Tier>> tiers_;
  std::unique_ptr<checkpoint::Drainer> drainer_;
  // Of the save that is under way: says that it is being written, and then keeps it from prunes.
  std::shared_ptr<const void> writing_, held_;
  std::vector<Pending> pending_;
  base::Random pauses_;
  uint64_t seed_ = 0, sequence_next_ = 1;  // the same in all processes
  uint64_t shift_ = 0;
  std::atomic<uint64_t> done_bytes_ = 0, read_retries_ = 0;
  bool shows_progress_ = false;  // on the thread that called run()
};

}  // namespace forebay::emulate
