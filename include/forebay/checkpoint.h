// Saves the state of a training job so that it never tears, and gives the newest whole one back.
//
// save() copies the state in memory and returns; it is made durable on the first tier and copied on
// to the others while training goes on. Whatever dies in between, restore() finds the newest
// checkpoint that is complete and checks every byte of it. Files: docs/formats/checkpoint.md.
//
// One thread at a time per Checkpointer; handles may be used from any thread. With several ranks
// every one calls save(), restore() and wait() in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"

namespace forebay {

namespace checkpoint {
class Tier;
}

// What one rank holds of a tensor. Parts with the same name on several ranks make up one tensor:
// together they fill it; the same part on several ranks is saved once.
struct TensorPart {
  std::string name;
  std::string element_type;             // numpy's or ml_dtypes' name: "float32", "bfloat16"
  std::vector<uint64_t> shape;          // of `bytes`
  std::span<const std::byte> bytes;     // C order, little endian
  std::vector<uint64_t> whole_shape{};  // of the tensor; empty = shape
  std::vector<uint64_t> start{};        // of this part in it; empty = at its front
};

struct CheckpointState {
  std::vector<TensorPart> tensors;
  std::string tree = "{}";  // JSON text: the rest of the state; that of rank 0 is kept
  std::map<std::string, std::string> metadata{};
  // "loss": what retention may judge by. NaN is worse than any number.
  std::map<std::string, double> metrics{};
};

// A place for checkpoints.
struct CheckpointTier {
  std::string place;              // a folder, or s3://BUCKET/PREFIX
  std::string storage = "local";  // driver and its options, as `forebay list stores` shows them
  double drain_bytes_per_second_max = 0;  // of copying to it; 0 = as fast as it goes; not the first
  // Checkpoints to keep here, once they are on the last tier; 0 = as the rules below say, which
  // alone count for the last tier.
  uint64_t keep_last = 0;
};

// The ranks that save one state together, in one program or several. Calls come from one thread at
// a time, in the same order on every rank.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // What every rank gave, by rank; all wait for each other. Fails when one of them is gone.
  virtual Result<std::vector<std::string>> gather(std::string_view mine, std::stop_token stop) = 0;
};

// Where the ranks of one job find each other, as their launcher says.
struct RankAddress {
  int rank = 0, size = 1;
  std::string host;            // of rank 0
  int port = 0, ports = 1;     // rank 0 takes the first of so many ports that is free
  std::string job;             // one short line: ranks that give another one never meet
  double join_seconds = 300;   // until all have come
  double wait_seconds = 1800;  // that a rank waits for one that lives and does not come to a call
};

// A group over TCP. Waits until all ranks have come. A rank that dies is noticed at once by its
// connection, one that stopped or lost its host within two minutes by its silence: every call of
// every other rank then fails and names it, for good. Whoever is given the port can join, like the
// ranks of torchrun: a private network is taken for granted.
Result<std::shared_ptr<RankGroup>> join_ranks(const RankAddress& address,
                                              std::stop_token stop = {});

// What save() does while the save before it is still on its way to the last tier.
enum class WhenBusy {
  kBlock,  // waits until it is there
  kSkip,   // saves nothing, and counts that
  kQueue,  // waits only for the memory to copy to: until it is durable on the first tier
};

struct CheckpointOptions {
  // Fast to slow. All ranks see the same there, but for the first one when others follow: it may be
  // a folder of each host's own.
  std::vector<CheckpointTier> tiers;
  std::shared_ptr<RankGroup> group;  // null = one rank
  WhenBusy when_busy = WhenBusy::kQueue;
  // What is kept on the last tier: the newest `keep_last` (0 = all), those of steps that are
  // multiples of `keep_every` (0 = none), the `keep_best` best by `best_metric`.
  uint64_t keep_last = 0;
  uint64_t keep_every = 0;
  uint64_t keep_best = 0;
  std::string best_metric;
  bool is_lower_better = true;
  bool compress = false;  // zstd, in chunks
  // A file whose bytes are those of the checkpoint before becomes another name of that one's file
  // instead of being written again. Not with compress, and only where all tiers have links:
  // folders.
  bool share_unchanged = false;
  uint64_t shard_bytes_max = 1ull << 30;  // of a file, unless one tensor alone is larger
  uint64_t chunk_bytes = 8ull << 20;      // that a checksum is of
  int threads = 0;  // that copy, check and write; 0 = as many as CPUs, up to 4
};

// Seconds since save() was called, for one save; negative = not yet, or never.
struct SaveTimes {
  double stalled = 0;       // that save() took: what training waited
  double snapshotted = -1;  // its tensors were copied
  double durable = -1;      // on the first tier
  double drained = -1;      // on the last
};

// One save under way. Copies mean the same save.
class SaveHandle {
 public:
  uint64_t step() const;
  bool was_skipped() const;  // WhenBusy::kSkip: all waits return at once
  // Each waits for its moment and returns what went wrong until then. kCancelled on a stop.
  Status wait_durable(std::stop_token stop = {}) const;
  Status wait_drained(std::stop_token stop = {}) const;
  SaveTimes times() const;
  // What went wrong in the background with an earlier save, of which nobody was told by that one's
  // handle or wait(): save() tells it here, once, and has saved this state nevertheless.
  std::optional<Error> earlier_failure() const;

  class Impl;
  explicit SaveHandle(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

// A tensor that was given back, whole or the part that was asked for.
struct RestoredTensor {
  std::string name;
  std::string element_type;
  std::vector<uint64_t> shape;  // of `bytes`
  std::span<std::byte> bytes;   // lives as long as `owner`; aligned as the file is, or to 64 bytes
  std::shared_ptr<const void> owner;
};

struct Restored {
  uint64_t step = 0;
  std::string place;  // of the tier that it came from
  std::string tree;
  std::map<std::string, std::string> metadata;
  std::vector<RestoredTensor> tensors;
  std::vector<std::string> notes;  // damage that was met on the way, and what became of it
};

// Which part of a tensor a rank wants; nothing = the whole.
struct TensorBox {
  std::vector<uint64_t> start, shape;
};
struct RestoreOptions {
  std::optional<uint64_t> step{};            // the newest of this step; nothing = the newest of all
  std::map<std::string, TensorBox> boxes{};  // by tensor; those not named come whole
  bool only_named = false;                   // other tensors are left out
};

// All tensors of a safetensors file of anybody's, a path or s3://BUCKET/KEY, and its metadata. Each
// rule of the format is checked; a file without checksums is taken as it is. kCorruption names the
// rule that is broken.
Result<Restored> load_safetensors(const std::string& path, std::stop_token stop = {});

struct CheckpointStats {
  uint64_t saves = 0, skipped = 0;
  uint64_t failed = 0;         // saves that are on no tier
  uint64_t failed_drains = 0;  // copies to a further tier that failed; each is tried again
  uint64_t bytes_written = 0, bytes_drained = 0;
  uint64_t bytes_shared = 0;  // of files that were linked, on all tiers
  double stalled_seconds = 0;
};

class Checkpointer {
 public:
  static Result<std::unique_ptr<Checkpointer>> open(const CheckpointOptions& options);
  ~Checkpointer();  // waits until what was saved is durable; an unfinished drain goes on next time

  // Returns once the tensors may change. What went wrong with earlier saves costs this one nothing:
  // SaveHandle::earlier_failure(). kResourceExhausted: the first tier has no room.
  Result<SaveHandle> save(uint64_t step, const CheckpointState& state, std::stop_token stop = {});

  // Waits until all saves are on the last tier; what could not be copied there is tried once more.
  // Fails with the first error that nobody was told of, and with that of a save which is still
  // missing on a tier.
  Status wait(std::stop_token stop = {});

  // The newest checkpoint that is whole, from the fastest tier that has it. Damaged chunks are
  // taken from another tier; where none has them the checkpoint before is taken, and notes say so.
  // kNotFound: there is none.
  Result<Restored> restore(const RestoreOptions& options = {}, std::stop_token stop = {});

  CheckpointStats stats() const;

 private:
  class Impl;
  explicit Checkpointer(std::unique_ptr<Impl> impl);
  static Result<std::unique_ptr<Checkpointer>> open_on(
      std::vector<std::unique_ptr<checkpoint::Tier>> tiers, const CheckpointOptions& options);
  friend struct CheckpointerMaker;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay
