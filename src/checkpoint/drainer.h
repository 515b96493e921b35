// Copies checkpoints from the first tier on to the others, in the background, one after the other,
// and removes what the rules do not keep.
//
// With several ranks each copies the shards that it wrote and leaves a mark beside them; the first
// rank publishes when all marks are there. A drain that was cut goes on with the shards that are
// missing.
//
// Any thread; its own does the work.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/manifest.h"
#include "checkpoint/pace.h"
#include "checkpoint/retention.h"
#include "checkpoint/shard_io.h"
#include "checkpoint/tier.h"
#include "forebay/checkpoint.h"

namespace forebay::checkpoint {

struct DrainJob {
  SaveName name;
  std::shared_ptr<const Manifest> manifest;
  std::shared_ptr<SaveHandle::Impl> progress;  // null: of an earlier process
  size_t from_tier = 0;                        // the last one that has it
  // Keeps prunes of all processes from that one, where the store has locks.
  std::shared_ptr<const void> held{};
  // By shard, the rank that copies it; empty: who wrote it, or in turn in a world of another size.
  std::vector<int> copiers{};
};

class Drainer {
 public:
  // The tiers must outlive it. `session`: the same on all ranks, and another one in each process.
  static Result<std::unique_ptr<Drainer>> start(std::span<const std::unique_ptr<Tier>> tiers,
                                                const CheckpointOptions& options, int rank,
                                                int world_size, uint64_t session);
  ~Drainer();  // stops at the next chunk

  void add(DrainJob job);
  // This rank removes what the first tier does not keep, as one of each host does where that tier
  // is the host's own. The first rank does so anyway; elsewhere one more checkpoint stays until the
  // next save, since nobody tells that the last one has reached the next tier.
  void prune_first_tier();
  // No save is on its way.
  bool is_idle() const;
  // Waits until nothing is left to do, pruning included; false on a stop.
  bool wait_idle(const std::stop_token& stop);
  // The same, once what could not be copied has been tried again: why the first of what is still
  // missing is.
  Status finish(const std::stop_token& stop);
  // Keeps a save from being removed while `held` lives.
  std::shared_ptr<const void> hold(const SaveName& name);

  uint64_t failed() const;  // copies that were tried and ended in an error
  uint64_t bytes_drained() const;
  uint64_t bytes_shared() const;

 private:
  Drainer(std::span<const std::unique_ptr<Tier>> tiers, const CheckpointOptions& options, int rank,
          int world_size, uint64_t session);
  void run(const std::stop_token& stop);
  // All the way, as far as it goes; tells whoever has the handle. False: it is to be tried again.
  bool drain(DrainJob& job, bool is_newest, const std::stop_token& stop);
  Status copy_on(DrainJob& job, const std::stop_token& stop);
  bool is_worth_another_try(const DrainJob& job, const Error& error) const;
  // Those that this rank copies.
  std::vector<const Shard*> shards_of(const DrainJob& job) const;
  void try_left_again(const std::stop_token& stop);
  bool is_left(size_t tier, const SaveName& name) const;
  // What holds it there.
  Result<std::shared_ptr<const void>> copy_to(size_t tier, const DrainJob& job,
                                              const std::stop_token& stop);
  Result<std::shared_ptr<const void>> copy_and_publish(size_t tier, const DrainJob& job,
                                                       const std::stop_token& stop);
  Status copy_shards(size_t tier, const DrainJob& job, const std::stop_token& stop);
  // Gives the file that holds the same in the newest checkpoint of `to`, if any, a name in this
  // one.
  bool link_to_same(const Tier& from, Tier& to, const DrainJob& job, const Shard& shard,
                    const Admission& admit);
  // Files beside the shards that tell the other ranks something. Those of an earlier process, which
  // copied other shards or had failed, do not count.
  Status leave_mark(Tier& tier, const SaveName& name, const std::string& mark) const;
  Result<bool> has_mark(const Tier& tier, const SaveName& name, const std::string& mark) const;
  Status wait_for_marks(Tier& tier, const SaveName& name, const std::stop_token& stop);
  // Until `is_done`. kIo when that rank says that it failed, or when nobody copies anything for
  // long.
  Status wait_for_rank(int rank, Tier& tier, const SaveName& name,
                       const std::function<Result<bool>()>& is_done, const std::stop_token& stop);
  // Removes what the rules do not keep, on every tier.
  void prune();
  void prune(size_t tier);
  // What the rules have to know of a checkpoint.
  KeptSave look_at(size_t tier, const SaveName& name);

  const std::span<const std::unique_ptr<Tier>> tiers_;
  const CheckpointOptions options_;
  const int rank_, world_size_;
  const std::string session_;
  std::vector<Pace> paces_;  // by tier; the thread's own
  // What could not be copied, oldest first: tried again before each further one, and kept until
  // then. The thread's own.
  std::vector<DrainJob> left_;
  // By tier and folder: what was found whole once, which stays so; the thread's own.
  std::map<std::pair<size_t, std::string>, KeptSave> whole_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<DrainJob> jobs_ FB_GUARDED_BY(mutex_);
  bool prunes_first_tier_ FB_GUARDED_BY(mutex_) = false;
  bool is_draining_ FB_GUARDED_BY(mutex_) = false;
  bool is_busy_ FB_GUARDED_BY(mutex_) = false;           // with what follows it, too
  bool tries_again_ FB_GUARDED_BY(mutex_) = false;       // is to, as soon as it can
  std::optional<Error> why_left_ FB_GUARDED_BY(mutex_);  // the first of left_
  uint64_t failed_ FB_GUARDED_BY(mutex_) = 0;
  std::multiset<std::string> held_ FB_GUARDED_BY(mutex_);  // by folder
  uint64_t bytes_drained_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_shared_ FB_GUARDED_BY(mutex_) = 0;
  std::jthread thread_;
};

}  // namespace forebay::checkpoint
