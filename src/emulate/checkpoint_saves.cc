#include "emulate/checkpoint_saves.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "cluster/world.h"
#include "emulate/data_store.h"
#include "emulate/epoch_part.h"

namespace forebay::emulate {

Status CheckpointSaves::save(uint64_t epoch, uint64_t step) {
  if (!writer_)
    writer_ = CheckpointWriter::open(FB_TRY(open_store()), run_.workload.checkpoint,
                                     run_.workload.model.size_bytes, run_.workload.train.seed);
  const int64_t start = run_.clock.now_ns();
  CheckpointRecord record = FB_TRY(writer_->save(epoch, step, run_.stop));
  record.start = run_.seconds_since_start(start);
  record.end = run_.seconds_since_start(run_.clock.now_ns());
  run_.result.checkpoints.push_back(std::move(record));
  return {};
}

Status CheckpointSaves::save_after_epoch(uint64_t epoch) {
  if (run_.world.rank() == 0) FB_TRY(save(epoch, run_.plan.steps));
  FB_TRY(share());
  for (EpochResult& done : run_.result.epochs) {
    if (done.epoch != epoch || done.is_evaluation) continue;
    done.split.checkpoint += run_.result.checkpoints.back().seconds;
    done.critical.checkpoint = done.split.checkpoint;
  }
  return {};
}

// Process 0 has saved; the others wait for it and note the same.
Status CheckpointSaves::share() {
  if (run_.is_alone()) return {};
  EpochPart carrier;
  if (run_.world.rank() == 0) carrier.checkpoints.push_back(run_.result.checkpoints.back());
  const std::vector<std::string> all = FB_TRY(run_.world.gather(pack(carrier), run_.stop));
  if (run_.world.rank() != 0) {
    const EpochPart first = FB_TRY(unpack_epoch_part(all[0]));
    run_.result.checkpoints.push_back(first.checkpoints.at(0));
  }
  told_ = run_.result.checkpoints.size();
  return {};
}

std::vector<CheckpointRecord> CheckpointSaves::take_untold() {
  const std::vector<CheckpointRecord>& all = run_.result.checkpoints;
  std::vector<CheckpointRecord> untold(all.begin() + static_cast<int64_t>(told_), all.end());
  told_ = all.size();
  return untold;
}

Result<std::unique_ptr<storage::Store>> CheckpointSaves::open_store() const {
  std::string folder = run_.workload.checkpoint.checkpoint_folder;
  if (run_.workload.storage.is_object_store() && !folder.starts_with('/'))
    folder = FB_TRY(place_of(folder, run_.workload.storage));
  return open_data_store("local", folder, run_.workload.storage);
}

}  // namespace forebay::emulate
