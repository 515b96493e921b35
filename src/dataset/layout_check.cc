#include "dataset/layout_check.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace forebay::dataset {
namespace {

using formats::Access;
using formats::Block;
using formats::Extent;
using formats::FileIndex;

constexpr uint64_t kBlockBytesMax = uint64_t{1} << 62;

bool is_inside(const std::vector<Extent>& extents, uint64_t file_bytes) {
  return std::all_of(extents.begin(), extents.end(), [file_bytes](const Extent& extent) {
    return extent.length <= file_bytes && extent.offset <= file_bytes - extent.length;
  });
}

Status check_blocks(const FileIndex& layout, uint64_t file_bytes) {
  if (layout.blocks.size() > UINT32_MAX)
    return fail(ErrorCode::kCorruption, "{} blocks in one file", layout.blocks.size());
  uint64_t next = 0;
  for (const Block& block : layout.blocks) {
    if (block.sample_count == 0 || block.first_sample != next ||
        block.sample_count > layout.sample_count - next)
      return fail(ErrorCode::kCorruption, "blocks do not match samples");
    next += block.sample_count;
    if (!is_inside(block.extents, file_bytes))
      return fail(ErrorCode::kCorruption, "a block outside its file");
    uint64_t bytes = 0;
    for (const Extent& extent : block.extents) {
      if (extent.length > kBlockBytesMax - bytes)
        return fail(ErrorCode::kCorruption, "a block of more than 2^62 bytes");
      bytes += extent.length;
    }
  }
  if (next != layout.sample_count)
    return fail(ErrorCode::kCorruption, "{} samples, but blocks for {}", layout.sample_count, next);
  return {};
}

}  // namespace

uint64_t block_bytes(const Block& block) {
  uint64_t bytes = 0;
  for (const Extent& extent : block.extents) bytes += extent.length;
  return bytes;
}

Status check_layout(const FileIndex& layout, uint64_t file_bytes) {
  const bool has_extents = layout.access == Access::kExtents;
  if (layout.extents.size() != (has_extents ? layout.sample_count : 0) ||
      (layout.access == Access::kWholeFile && layout.sample_count != 1))
    return fail(ErrorCode::kCorruption, "extents do not match samples");
  if (!layout.extents.is_inside(file_bytes))
    return fail(ErrorCode::kCorruption, "samples outside their file");
  if (layout.access == Access::kBlocks) return check_blocks(layout, file_bytes);
  if (!layout.blocks.empty()) return fail(ErrorCode::kCorruption, "blocks nobody asked for");
  return {};
}

}  // namespace forebay::dataset
