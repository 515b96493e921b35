// What is read and decoded at once for several samples: a block, or a file whose samples only come
// together. Private to the loader.
//
// Fields say who may touch them; the others never change once the unit is in the cache.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "formats/format.h"
#include "loader/batch_state.h"
#include "loader/buffer_pool.h"

namespace forebay::loader {

struct Fetch;

// Payload bytes of each sample of a unit.
struct SampleSizes {
  uint64_t total = 0, count = 1;
  std::vector<uint64_t> each{};  // empty: `total` is shared out evenly, to the byte
  uint64_t at(uint64_t sample) const {
    return each.empty() ? total / count + (sample < total % count ? 1 : 0) : each[sample];
  }
};

// How a unit came out. Samples that nobody keeps need only their sizes; `block` is there when bytes
// are needed, `raw` when bytes are kept without being decoded.
struct UnitContent {
  std::optional<Error> error{};
  std::shared_ptr<const formats::DecodedBlock> block{};
  BufferRef raw{};
  SampleSizes sizes{};
  std::unordered_map<uint64_t, Error> bad_samples{};  // found while sizes were taken
  uint64_t held_bytes = 0;  // that a loader which keeps samples would hold for it
  uint64_t real_bytes = 0;  // that this one holds
};

struct Unit {
  uint32_t file = 0, block = 0;
  formats::Access access = formats::Access::kBlocks;
  uint64_t sample_count = 1;

  // --- the issuer's ---
  Fetch* reading = nullptr;    // targets may still join it
  std::vector<Target> late{};  // wanted after it was handed on; given out at the end of a pass
  bool is_forgotten = false;   // it could not be read
  // --- the cache's ---
  std::list<std::shared_ptr<Unit>>::iterator place{};
  bool is_kept = false;

  // --- shared ---
  base::Mutex mutex;
  std::vector<Target> waiting FB_GUARDED_BY(mutex){};  // wanted while it is being decoded
  bool is_decoded FB_GUARDED_BY(mutex) = false;
  UnitContent content{};  // written before is_decoded, constant afterwards
};

// Fills the slot of `target`, whose sample needs no bytes of a decoded block, or counts it as bad.
void fill_from_facts(const Unit& unit, const Target& target);
// The cause when this sample is bad whatever is done with it, or null.
const Error* bad_cause(const Unit& unit, uint64_t sample);

// Units that are being read or decoded, and those decoded of late. Safe to use from any thread.
class UnitCache {
 public:
  // Keeps decoded units up to these bounds, but at least the newest one.
  UnitCache(uint64_t held_bytes_max, uint64_t real_bytes_max);

  std::shared_ptr<Unit> find(uint32_t file, uint32_t block);
  void insert(const std::shared_ptr<Unit>& unit);
  void remove(const Unit& unit);  // it will have to be read again
  // Its content is there: counts it as the newest, and drops the oldest ones.
  void keep(const std::shared_ptr<Unit>& unit);
  // What is decoded has to be read again: a new epoch visits every sample anew.
  void forget_kept();

 private:
  static uint64_t key(uint32_t file, uint32_t block) { return (uint64_t{file} << 32) | block; }
  void drop(const std::shared_ptr<Unit>& unit) FB_REQUIRES(mutex_);

  const uint64_t held_bytes_max_, real_bytes_max_;
  base::Mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Unit>> units_ FB_GUARDED_BY(mutex_);
  std::list<std::shared_ptr<Unit>> kept_ FB_GUARDED_BY(mutex_);  // newest first
  uint64_t held_bytes_ FB_GUARDED_BY(mutex_) = 0, real_bytes_ FB_GUARDED_BY(mutex_) = 0;
};

}  // namespace forebay::loader
