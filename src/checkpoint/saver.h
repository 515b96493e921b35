// Makes a copied state a checkpoint on the first tier: all ranks' shards, then one manifest, or
// nothing.
//
// Where the first tier is a folder of each host's own, each holds all that its ranks have, and a
// manifest that says which shards are elsewhere; the tiers behind it have the whole.
//
// One thread at a time; with several ranks they make the same calls in the same order.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/rank_places.h"
#include "checkpoint/shard_io.h"
#include "checkpoint/shard_plan.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/tier.h"
#include "forebay/checkpoint.h"

namespace forebay::checkpoint {

struct SaveJob {
  SaveName name;  // its sequence grows while it is saved when there are newer ones on the tier
  std::vector<LocalPart> parts;  // their bytes are no longer looked at
  ShardPlan plan;
  std::string tree;
  std::map<std::string, std::string> metadata;
  std::map<std::string, double> metrics;
  std::shared_ptr<SaveHandle::Impl> progress;
  std::optional<Error> failure;      // this rank cannot save; the others have to hear of it
  std::shared_ptr<const void> held;  // set by Saver: keeps what was saved from prunes
};

struct SaverOptions {
  uint64_t chunk_bytes = 8 << 20;
  bool packs = false;
  int threads = 1;
  bool shares = false;  // links to files of the checkpoint before that hold the same
};

class Saver {
 public:
  // All must outlive it.
  Saver(std::span<const std::unique_ptr<Tier>> tiers, RankGroup& group, SaverOptions options)
      : tiers_(tiers), tier_(*tiers.front()), group_(group), options_(options) {}

  // The manifest of the whole once the checkpoint is durable. After an error nothing of it is left
  // where that is possible, and no rank has a checkpoint.
  Result<Manifest> save(SaveJob& job, const Snapshot& snapshot, const std::stop_token& stop);

  // Whether this rank writes the manifest of its place, once save() has found out which ranks share
  // it.
  bool leads() const;

  uint64_t bytes_shared() const { return bytes_shared_.load(std::memory_order_relaxed); }

 private:
  // kInvalidArgument when there is no tier that all share.
  Status find_out_places(const SaveJob& job, const std::stop_token& stop);
  // The newest checkpoint that is there, for the first save of a process.
  void find_base();
  // Which of this rank's shards it is to write; and the sequence that all take.
  Result<std::vector<size_t>> choose_shards(SaveJob& job, const std::stop_token& stop);
  Result<Manifest> write_shards(const SaveJob& job, const Snapshot& snapshot,
                                const std::vector<size_t>& chosen, const std::stop_token& stop);
  // Gives the file of the checkpoint before that holds `image`, if any, a name in this one too.
  bool link_to_same(const ShardImage& image, const std::string& folder, Shard& shard);
  // Of what each rank wrote, as the place of `rank` has it.
  Result<Manifest> merge(const std::vector<std::string>& texts, int rank) const;
  Status publish(SaveJob& job, const Result<Manifest>& merged,
                 Result<std::shared_ptr<const void>> writing);

  const std::span<const std::unique_ptr<Tier>> tiers_;
  Tier& tier_;
  RankGroup& group_;
  const SaverOptions options_;
  std::optional<RankPlaces> places_;  // of the first tier
  // The checkpoint before, as far as it is known.
  std::optional<std::pair<SaveName, Manifest>> base_;
  std::atomic<uint64_t> bytes_shared_ = 0;  // a total; it orders nothing
};

}  // namespace forebay::checkpoint
