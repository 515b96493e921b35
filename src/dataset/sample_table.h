// How the samples of a data set lie in its files. Files that are laid out alike (extents, blocks
// and detail) share one entry, so uniform data sets of any size need a few bytes a file.
//
// Fill from one thread at a time; then safe to use from any thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "forebay/result.h"
#include "formats/format.h"

namespace forebay::dataset {

class SampleTable {
 public:
  // The number of the layout equal to `index`, which is stored when it is new.
  uint32_t intern(formats::FileIndex index);
  const formats::FileIndex& layout(uint32_t number) const { return layouts_[number]; }
  uint32_t layout_count() const { return static_cast<uint32_t>(layouts_.size()); }

  // Gives file i the layout layout_of_file[i]; kInvalidArgument past 2^62 samples.
  Status assign(std::vector<uint32_t> layout_of_file);

  uint64_t sample_count() const { return first_sample_.back(); }
  uint64_t samples_per_file_max() const { return samples_per_file_max_; }
  bool is_together() const { return is_together_; }
  bool has_blocks() const { return has_blocks_; }
  // Samples and bytes of the largest unit that is read at once: a block, or a kTogether file as far
  // as samples go; 1 sample where there is neither.
  uint64_t unit_samples_max() const { return unit_samples_max_; }
  uint64_t block_bytes_max() const { return block_bytes_max_; }
  // Every block has unit_samples_max() samples and none is left over at the end of a file.
  bool has_even_blocks() const { return has_even_blocks_; }
  uint32_t layout_of(uint64_t file) const { return layout_of_file_[file]; }
  const formats::FileIndex& of_file(uint64_t file) const { return layouts_[layout_of_file_[file]]; }

  struct Place {
    uint64_t file = 0, sample_in_file = 0;
  };
  // sample < sample_count().
  Place find(uint64_t sample) const;

  struct BlockPlace {
    uint32_t block = 0;
    uint64_t sample_in_block = 0;
    uint64_t bytes = 0;  // to read for it
  };
  // Only for files with blocks.
  BlockPlace find_block(const Place& place) const;

 private:
  void measure_units();

  // What find_block() needs, by layout.
  struct Blocks {
    uint64_t samples_each = 0;    // of all but the last; 0: they differ
    std::vector<uint64_t> bytes;  // to read for each
  };

  std::vector<formats::FileIndex> layouts_;
  std::vector<Blocks> blocks_;
  std::unordered_multimap<uint64_t, uint32_t> numbers_by_hash_;
  std::vector<uint32_t> layout_of_file_;
  std::vector<uint64_t> first_sample_{0};  // of each file, and the total
  uint64_t samples_each_ = 0;              // of every file; 0: they differ
  uint64_t samples_per_file_max_ = 0;
  uint64_t unit_samples_max_ = 1, block_bytes_max_ = 0;
  bool is_together_ = false, has_blocks_ = false, has_even_blocks_ = false;
};

}  // namespace forebay::dataset
