#include "checkpoint/snapshot.h"

#include <algorithm>
#include <memory>

#include "base/stream_copy.h"
#include "checkpoint/parallel.h"

namespace forebay::checkpoint {
namespace {

constexpr uint64_t kPieceBytes = 8 << 20;  // of one copy, so that threads share large tensors

struct Copy {
  std::byte* to;
  std::span<const std::byte> from;
};

}  // namespace

Status Snapshot::copy(std::span<const LocalPart> parts, const ShardPlan& plan, int threads) {
  if (plan.arena_bytes > capacity_) {
    memory_.reset();  // before the larger one is there
    memory_ = sys::allocate_large(plan.arena_bytes + kShardAlignBytes);
    void* front = memory_.get();
    size_t room = plan.arena_bytes + kShardAlignBytes;
    begin_ = static_cast<std::byte*>(std::align(kShardAlignBytes, plan.arena_bytes, front, room));
    capacity_ = plan.arena_bytes;
  }
  std::vector<Copy> copies;
  for (size_t i = 0; i < parts.size(); ++i) {
    std::span<const std::byte> rest = parts[i].bytes;
    std::byte* to = begin_ + plan.part_offsets[i];
    while (!rest.empty()) {
      const auto piece = rest.first(std::min<uint64_t>(rest.size(), kPieceBytes));
      copies.push_back({to, piece});
      to += piece.size();
      rest = rest.subspan(piece.size());
    }
  }
  return for_each_parallel(copies.size(), threads, {}, [&](size_t i) -> Status {
    base::stream_copy(copies[i].to, copies[i].from);
    return {};
  });
}

std::span<const std::byte> Snapshot::data_of(const PlannedShard& shard) const {
  return {begin_ + shard.arena_offset, shard.data_bytes};
}

}  // namespace forebay::checkpoint
