// Classes of files from the folders they lie in: root/class/any/depth/name.jpg, as torchvision's
// ImageFolder has them. Names are sorted by their bytes; label i is the i-th.
//
// Immutable once made; safe to use from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/index.h"
#include "forebay/result.h"

namespace forebay::dataset {

// Files of one data set, and the folder (relative to the store's root) whose subfolders are
// classes.
struct LabelledFiles {
  const Index* index = nullptr;
  std::string folder;
};

class ClassLabels {
 public:
  // A name stands for the same class in every data set, so that mixtures agree. kInvalidArgument
  // naming the first file that lies in no class folder.
  static Result<ClassLabels> make(std::span<const LabelledFiles> sets);

  const std::vector<std::string>& names() const { return names_; }
  // Of file `file` of data set `set`.
  int64_t label(size_t set, uint32_t file) const { return labels_[set][file]; }
  // Those among the names whose folders hold files, but none that the data set uses.
  const std::vector<std::string>& empty_names() const { return empty_names_; }

 private:
  std::vector<std::string> names_, empty_names_;
  std::vector<std::vector<uint32_t>> labels_;  // by data set, then by file
};

}  // namespace forebay::dataset
