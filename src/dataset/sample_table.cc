#include "dataset/sample_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"

namespace forebay::dataset {
namespace {

constexpr uint64_t kSamplesMax = uint64_t{1} << 62;

uint64_t hash_of(const formats::FileIndex& index) {
  uint64_t hash = base::derive_seed(static_cast<uint64_t>(index.access), index.sample_count);
  for (const formats::Extent& extent : index.extents)
    hash = base::mix64(base::mix64(hash ^ extent.offset) ^ extent.length);
  return hash;
}

bool is_same(const formats::FileIndex& a, const formats::FileIndex& b) {
  return a.access == b.access && a.sample_count == b.sample_count &&
         std::equal(a.extents.begin(), a.extents.end(), b.extents.begin(), b.extents.end(),
                    [](const formats::Extent& x, const formats::Extent& y) {
                      return x.offset == y.offset && x.length == y.length;
                    });
}

}  // namespace

uint32_t SampleTable::intern(formats::FileIndex index) {
  const uint64_t hash = hash_of(index);
  const auto candidates = numbers_by_hash_.equal_range(hash);
  for (auto it = candidates.first; it != candidates.second; ++it)
    if (is_same(layouts_[it->second], index)) return it->second;
  const auto number = static_cast<uint32_t>(layouts_.size());
  index.extents.shrink_to_fit();
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
  }
  const uint64_t files = layout_of_file_.size();
  if (files > 0 && sample_count() == files * samples_per_file_max_)
    samples_each_ = samples_per_file_max_;
  numbers_by_hash_ = {};
  return {};
}

SampleTable::Place SampleTable::find(uint64_t sample) const {
  FB_DCHECK(sample < sample_count());
  if (samples_each_ > 0) return {sample / samples_each_, sample % samples_each_};
  // The last file that starts at or before the sample; files without samples are passed.
  const auto after = std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
  const auto file = static_cast<uint64_t>(after - first_sample_.begin()) - 1;
  return {file, sample - first_sample_[file]};
}

}  // namespace forebay::dataset
