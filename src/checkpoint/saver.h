// Makes a copied state a checkpoint on the first tier: all ranks' shards, then one manifest, or
// nothing.
//
// One thread at a time; with several ranks they make the same calls in the same order.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
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
  // All must outlive it. `leads`: whether this rank writes the manifest of its tier.
  Saver(Tier& tier, RankGroup& group, bool leads, SaverOptions options)
      : tier_(tier), group_(group), leads_(leads), options_(options) {}

  // The manifest once the checkpoint is durable. After an error nothing of it is left where that is
  // possible, and no rank has a checkpoint.
  Result<Manifest> save(SaveJob& job, const Snapshot& snapshot, const std::stop_token& stop);

  uint64_t bytes_shared() const { return bytes_shared_.load(std::memory_order_relaxed); }

 private:
  // The newest checkpoint that is there, for the first save of a process.
  void find_base();
  // Which of this rank's shards it is to write; and the sequence that all take.
  Result<std::vector<size_t>> choose_shards(SaveJob& job, const std::stop_token& stop);
  Result<Manifest> write_shards(const SaveJob& job, const Snapshot& snapshot,
                                const std::vector<size_t>& chosen, const std::stop_token& stop);
  // Gives the file of the checkpoint before that holds `image`, if any, a name in this one too.
  bool link_to_same(const ShardImage& image, const std::string& folder, Shard& shard);
  // Of what each rank wrote.
  static Result<Manifest> merge(const Result<std::vector<std::string>>& texts);

  Tier& tier_;
  RankGroup& group_;
  const bool leads_;
  const SaverOptions options_;
  // The checkpoint before, as far as it is known.
  std::optional<std::pair<SaveName, Manifest>> base_;
  std::atomic<uint64_t> bytes_shared_ = 0;  // a total; it orders nothing
};

}  // namespace forebay::checkpoint
