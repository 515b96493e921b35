#include "dataset/sample_table.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "dataset/layout_check.h"

namespace forebay::dataset {
namespace {

constexpr uint64_t kSamplesMax = uint64_t{1} << 62;

uint64_t mix(uint64_t hash, uint64_t value) {
  return base::mix64(hash ^ value);
}

uint64_t hash_extents(uint64_t hash, const std::vector<formats::Extent>& extents) {
  for (const formats::Extent& extent : extents) hash = mix(mix(hash, extent.offset), extent.length);
  return mix(hash, extents.size());
}

uint64_t hash_extents(uint64_t hash, const formats::ExtentList& extents) {
  hash = mix(mix(hash, extents.size()), extents.stride());
  const uint64_t count = extents.is_even() ? std::min<uint64_t>(1, extents.size()) : extents.size();
  for (uint64_t i = 0; i < count; ++i) hash = mix(mix(hash, extents[i].offset), extents[i].length);
  return hash;
}

uint64_t hash_of(const formats::FileIndex& index) {
  uint64_t hash = base::derive_seed(static_cast<uint64_t>(index.access), index.sample_count);
  hash = hash_extents(hash, index.extents);
  for (const formats::Block& block : index.blocks)
    hash = hash_extents(mix(hash, block.sample_count), block.extents);
  if (index.extent_array) {
    hash = mix(hash, static_cast<uint64_t>(index.extent_array->type));
    for (const uint64_t side : index.extent_array->shape) hash = mix(hash, side);
  }
  if (index.damage) hash = mix(hash, index.damage->offset);
  return mix(hash, std::hash<std::string>()(index.detail));
}

bool is_same(const std::optional<formats::ArrayLayout>& a,
             const std::optional<formats::ArrayLayout>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->type == b->type && a->is_big_endian == b->is_big_endian &&
         a->is_fortran_order == b->is_fortran_order && a->shape == b->shape;
}

bool is_same(const formats::FileIndex& a, const formats::FileIndex& b) {
  return a.access == b.access && a.sample_count == b.sample_count && a.detail == b.detail &&
         a.problems == b.problems && a.damage == b.damage && a.extents == b.extents &&
         is_same(a.extent_array, b.extent_array) &&
         std::equal(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(),
                    [](const formats::Block& x, const formats::Block& y) {
                      return x.first_sample == y.first_sample && x.sample_count == y.sample_count &&
                             x.extents == y.extents;
                    });
}

// Samples of each block but the last, which may be shorter; 0 when they differ.
uint64_t samples_each(const std::vector<formats::Block>& blocks) {
  if (blocks.empty()) return 0;
  const uint64_t each = blocks.front().sample_count;
  const bool is_even =
      std::all_of(blocks.begin(), blocks.end() - 1,
                  [each](const formats::Block& block) { return block.sample_count == each; });
  return is_even && blocks.back().sample_count <= each ? each : 0;
}

}  // namespace

uint32_t SampleTable::intern(formats::FileIndex index) {
  const uint64_t hash = hash_of(index);
  const auto candidates = numbers_by_hash_.equal_range(hash);
  for (auto it = candidates.first; it != candidates.second; ++it)
    if (is_same(layouts_[it->second], index)) return it->second;
  const auto number = static_cast<uint32_t>(layouts_.size());
  index.extents.shrink_to_fit();
  index.blocks.shrink_to_fit();
  Blocks blocks{.samples_each = samples_each(index.blocks), .bytes = {}};
  blocks.bytes.reserve(index.blocks.size());
  for (const formats::Block& block : index.blocks) blocks.bytes.push_back(block_bytes(block));
  blocks_.push_back(std::move(blocks));
  layouts_.push_back(std::move(index));
  numbers_by_hash_.emplace(hash, number);
  return number;
}

Status SampleTable::assign(std::vector<uint32_t> layout_of_file) {
  layout_of_file_ = std::move(layout_of_file);
  first_sample_.reserve(layout_of_file_.size() + 1);
  for (const uint32_t number : layout_of_file_) {
    const formats::FileIndex& index = layouts_[number];
    if (index.sample_count > kSamplesMax - sample_count())
      return fail(ErrorCode::kInvalidArgument, "more than 2^62 samples");
    first_sample_.push_back(sample_count() + index.sample_count);
    samples_per_file_max_ = std::max(samples_per_file_max_, index.sample_count);
    is_together_ = is_together_ || index.access == formats::Access::kTogether;
    has_blocks_ = has_blocks_ || index.access == formats::Access::kBlocks;
  }
  measure_units();
  const uint64_t files = layout_of_file_.size();
  if (files > 0 && sample_count() == files * samples_per_file_max_)
    samples_each_ = samples_per_file_max_;
  numbers_by_hash_ = {};
  return {};
}

void SampleTable::measure_units() {
  std::vector<bool> is_used(layouts_.size(), false);
  for (const uint32_t number : layout_of_file_) is_used[number] = true;
  has_even_blocks_ = has_blocks_;
  uint64_t each = 0;
  for (size_t i = 0; i < layouts_.size(); ++i) {
    const formats::FileIndex& index = layouts_[i];
    if (!is_used[i]) continue;
    if (index.access == formats::Access::kTogether)
      unit_samples_max_ = std::max(unit_samples_max_, index.sample_count);
    for (const formats::Block& block : index.blocks) {
      unit_samples_max_ = std::max(unit_samples_max_, block.sample_count);
      if (each == 0) each = block.sample_count;
      has_even_blocks_ = has_even_blocks_ && block.sample_count == each;
    }
    has_even_blocks_ = has_even_blocks_ && index.access == formats::Access::kBlocks;
    for (const uint64_t bytes : blocks_[i].bytes)
      block_bytes_max_ = std::max(block_bytes_max_, bytes);
  }
}

SampleTable::Place SampleTable::find(uint64_t sample) const {
  FB_DCHECK(sample < sample_count());
  if (samples_each_ > 0) return {sample / samples_each_, sample % samples_each_};
  // The last file that starts at or before the sample; files without samples are passed.
  const auto after = std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
  const auto file = static_cast<uint64_t>(after - first_sample_.begin()) - 1;
  return {file, sample - first_sample_[file]};
}

SampleTable::BlockPlace SampleTable::find_block(const Place& place) const {
  const uint32_t number = layout_of_file_[place.file];
  const Blocks& blocks = blocks_[number];
  const std::vector<formats::Block>& all = layouts_[number].blocks;
  uint64_t block = 0;
  if (blocks.samples_each > 0) {
    block = place.sample_in_file / blocks.samples_each;
  } else {
    const auto after = std::upper_bound(
        all.begin(), all.end(), place.sample_in_file,
        [](uint64_t sample, const formats::Block& b) { return sample < b.first_sample; });
    block = static_cast<uint64_t>(after - all.begin()) - 1;
  }
  return {static_cast<uint32_t>(block), place.sample_in_file - all[block].first_sample,
          blocks.bytes[block]};
}

}  // namespace forebay::dataset
