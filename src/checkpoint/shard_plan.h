// Which tensors of a rank lie in which file, and where: decided before a byte is copied, so that
// the copy in memory has the order of the files.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "forebay/checkpoint.h"
#include "forebay/result.h"

namespace forebay::checkpoint {

// A part as save() was given it, checked.
struct LocalPart {
  std::string name;
  TensorType type = TensorType::kU8;
  std::vector<uint64_t> shape, whole_shape, start;
  std::span<const std::byte> bytes;
  bool is_steady = false;  // its bytes did not change between the last saves
};

// kInvalidArgument names the first part that is wrong: its type, a size that does not fit its
// shape, a place outside the whole, a name that is empty, no UTF-8, reserved or there twice.
Result<std::vector<LocalPart>> check_parts(std::span<const TensorPart> parts);

struct PlannedShard {
  std::string header;         // of the file; its length is a multiple of kShardAlignBytes
  std::vector<size_t> parts;  // as they follow each other behind the header
  uint64_t data_bytes = 0;
  uint64_t arena_offset = 0;  // of the data in the copy; a multiple of kShardAlignBytes
  uint64_t file_bytes() const { return header.size() + data_bytes; }
};

struct ShardPlan {
  std::vector<PlannedShard> shards;
  std::vector<uint64_t> part_offsets;  // in the copy, by part
  uint64_t arena_bytes = 0;            // of the whole copy
};

inline constexpr uint64_t kShardAlignBytes = 4096;  // what O_DIRECT asks for

// Whole tensors and parts of larger ones lie in different shards: of the former every rank may have
// the same, and then only one writes them. So do parts that are steady and others.
Result<ShardPlan> plan_shards(std::span<const LocalPart> parts, uint64_t shard_bytes_max);

// The name of a part in its shard's header: of all parts of one rank no other has it.
std::string entry_name(const LocalPart& part);

}  // namespace forebay::checkpoint
