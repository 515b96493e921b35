// What lies at a place, looked after by hand: listed, verified, copied, extracted and pruned, by
// the same rules as a Checkpointer's own. For the command line.
//
// Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "checkpoint/retention.h"
#include "checkpoint/tier.h"
#include "forebay/result.h"

namespace forebay::checkpoint {

struct CheckpointEntry {
  SaveName name;
  std::string folder;
  std::string problem{};  // why its manifest cannot be used; the rest is empty then
  int64_t saved_unix_ns = 0;
  uint64_t bytes = 0;  // of its shards that are here, as they are stored
  uint64_t tensors = 0, shards = 0, world_size = 0;
  uint64_t shards_elsewhere = 0;  // of `shards`: on other hosts, each of which has its own place
  std::map<std::string, double> metrics{};
  std::map<std::string, std::string> metadata{};
};

struct Inventory {
  std::vector<CheckpointEntry> checkpoints;  // newest first
  std::vector<Tier::Leftover> leftovers;     // those of saves that go on as well
  std::vector<std::string> notes;            // what could not be looked at
};
Result<Inventory> take_inventory(const Tier& tier);

// The newest checkpoint of `step`, or the newest of all; kNotFound names what is there.
Result<SaveName> find_checkpoint(const Inventory& inventory, std::optional<uint64_t> step,
                                 const std::string& place);

// Told after each chunk: bytes that were looked at, of how many.
using Progress = std::function<void(uint64_t done, uint64_t all)>;

struct Damage {
  std::string file;
  std::string what;
};
struct Verified {
  uint64_t bytes = 0;  // that were read
  std::vector<Damage> damage;
};
// Reads every byte of a checkpoint and goes on behind damage; what cannot be read, whyever, is
// damage. Fails on a stop only.
Result<Verified> verify_checkpoint(const Tier& tier, const SaveName& name, int threads,
                                   const Progress& progress, const std::stop_token& stop);

// Copies one from a place to another, every chunk checked; it is published there once it is whole.
// Nothing happens when it is there already. Bytes that were copied.
Result<uint64_t> copy_checkpoint(const Tier& from, Tier& to, const SaveName& name,
                                 double bytes_per_second_max, const Progress& progress,
                                 const std::stop_token& stop);

struct Pruned {
  std::vector<SaveName> removed;
  std::vector<SaveName> in_use;  // would go, but for those who read them
  std::vector<Damage> damaged;   // by folder: count for no rule
  std::vector<std::string> leftovers;
  std::vector<std::string> kept;   // leftovers that somebody may still be writing
  std::vector<Damage> failed;      // by folder: would go, and could not be removed
  std::vector<std::string> notes;  // what could not be looked at
  uint64_t bytes = 0;
};
struct PruneOptions {
  Retention rules{};
  std::string metric{};
  bool removes_leftovers = false;
  bool only_says = false;  // what it would do
  int threads = 1;         // that read
  // Leftovers that nobody can tell the writer of are kept until they have been quiet so long.
  double quiet_seconds = 3600;
  Progress progress{};
};
// Reads the newest checkpoint that looks whole before anything is removed; a damaged one does not
// count, and the next older one is read.
// Leftovers whose writers live stay, in whatever process or host; those whose writers are gone go.
// Where neither can be told (no locks, or nothing is being written just now) those go that are
// older than the newest checkpoint, where there are locks, or quiet.
Result<Pruned> prune(Tier& tier, const PruneOptions& options, const std::stop_token& stop);

// Writes a checkpoint as plain safetensors files of at most `file_bytes_max` (a tensor alone may be
// larger), whole tensors each, with tree.json, metadata.json and, for several files,
// model.safetensors.index.json as other tools have it. `folder` must not exist or be empty, and
// holds nothing after an error. Memory: the tensors of one file.
struct Extracted {
  uint64_t step = 0, tensors = 0, bytes = 0, files = 0;
  std::vector<std::string> notes{};
};
Result<Extracted> extract_checkpoint(const Tier& tier, const SaveName& name,
                                     const std::string& folder, uint64_t file_bytes_max,
                                     int threads, const std::stop_token& stop);

}  // namespace forebay::checkpoint
