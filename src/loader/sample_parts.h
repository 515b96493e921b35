// The parts of a sample as ops take them: those of its file, the label of its folder, and the key
// that names it. Private to the loader.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/catalog.h"
#include "formats/format.h"

namespace forebay::loader {

class SampleParts {
 public:
  // For the file's reader to fill.
  std::vector<formats::Part>& parts() { return parts_; }
  // Adds "label" where folders are classes, and "__key__", unless the file gave them.
  void complete(const dataset::Catalog& catalog, uint64_t sample, uint32_t file);

 private:
  bool has(std::string_view name) const;

  std::vector<formats::Part> parts_;
  int64_t label_ = 0;
  std::string key_;
};

}  // namespace forebay::loader
