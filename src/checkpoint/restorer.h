// Reads one checkpoint back: chunk by chunk, each checked, from the fastest tier that has it whole.
//
// Any thread; a restore uses several of its own.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/tier.h"
#include "forebay/checkpoint.h"

namespace forebay::checkpoint {

// Where a checkpoint is, fastest first; not empty.
struct SaveCopies {
  SaveName name;
  std::vector<const Tier*> tiers;
};

// All checkpoints of all tiers, newest first. Tiers that cannot be listed are named in `notes`; an
// error when none can.
Result<std::vector<SaveCopies>> find_saves(std::span<const std::unique_ptr<Tier>> tiers,
                                           std::vector<std::string>& notes);

// kCorruption when a chunk is damaged or missing on every tier, or no manifest can be read. Other
// processes' prunes keep off meanwhile, where the stores have locks.
Result<Restored> restore_save(const SaveCopies& save, const RestoreOptions& options, int threads,
                              const std::stop_token& stop);

}  // namespace forebay::checkpoint
