// The copy of a state in memory, from which it is written while training changes the original. Its
// memory is kept for the next copy: fresh pages cost several times what the copy itself does.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/shard_plan.h"
#include "forebay/result.h"
#include "sys/memory.h"

namespace forebay::checkpoint {

class Snapshot {
 public:
  // Copies all parts to the places that `plan` gives them, on `threads` threads. Grows to
  // plan.arena_bytes, and stays that large.
  Status copy(std::span<const LocalPart> parts, const ShardPlan& plan, int threads);

  // The bytes of a shard behind its header; they begin at a multiple of kShardAlignBytes.
  std::span<const std::byte> data_of(const PlannedShard& shard) const;

  uint64_t capacity() const { return capacity_; }

 private:
  sys::LargeBuffer memory_;
  std::byte* begin_ = nullptr;  // its first aligned byte
  uint64_t capacity_ = 0;
};

}  // namespace forebay::checkpoint
