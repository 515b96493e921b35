// The files of a store that patterns choose, from one listing or a few questions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::dataset {

struct Candidates {
  storage::Listing listing;
  bool is_listed = false;  // all of `folder`; else only the files asked for by name
  std::string folder;
  std::vector<size_t> files;         // positions in the listing, in the order of the samples
  std::vector<size_t> repeated;      // of them: chosen again by a later pattern
  std::vector<std::string> missing;  // written out, but not there
  bool names_files = false;          // a pattern means files, not all of a folder
};

// In the order of the patterns and of what their braces stand for, else by path. kNotFound, naming
// the first few, for files that are written out but do not exist (unless `skip_missing`), and for
// patterns that choose nothing.
Result<Candidates> choose_by_patterns(storage::Store& store, std::span<const std::string> patterns,
                                      bool skip_missing);

}  // namespace forebay::dataset
