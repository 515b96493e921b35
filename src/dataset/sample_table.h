// How the samples of a data set lie in its files. Files that are laid out alike share one entry, so
// uniform data sets of any size need a few bytes a file.
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
  uint32_t layout_of(uint64_t file) const { return layout_of_file_[file]; }
  const formats::FileIndex& of_file(uint64_t file) const { return layouts_[layout_of_file_[file]]; }

  struct Place {
    uint64_t file = 0, sample_in_file = 0;
  };
  // sample < sample_count().
  Place find(uint64_t sample) const;

 private:
  std::vector<formats::FileIndex> layouts_;
  std::unordered_multimap<uint64_t, uint32_t> numbers_by_hash_;
  std::vector<uint32_t> layout_of_file_;
  std::vector<uint64_t> first_sample_{0};  // of each file, and the total
  uint64_t samples_each_ = 0;              // of every file; 0: they differ
  uint64_t samples_per_file_max_ = 0;
  bool is_together_ = false;
};

}  // namespace forebay::dataset
