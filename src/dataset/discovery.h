// Decides which of the files of a folder form the data set, and says what it left out and why.
//
// Functions are safe to call from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "dataset/file_table.h"
#include "dataset/index.h"
#include "forebay/result.h"
#include "formats/format.h"
#include "storage/store.h"

namespace forebay::dataset {

// Counts all problems, keeps the first 100.
class ProblemList {
 public:
  void add(std::string path, std::string reason);

  uint64_t count() const { return count_; }
  const std::vector<storage::Skipped>& first() const { return first_; }

 private:
  uint64_t count_ = 0;
  std::vector<storage::Skipped> first_;
};

struct Discovery {
  const formats::Format* format = nullptr;
  FileTable files;                        // in the order that samples are numbered
  uint64_t empty_count = 0;               // files of 0 bytes or that do not exist, left out
  std::vector<storage::Skipped> empties;  // the first 100 of them
  ProblemList damaged;  // the empty ones that their names make files of the format, and the missing
  uint64_t stray_count = 0;
  std::set<std::string, std::less<>> other_folders;  // of empty and stray files
  uint64_t files_beyond_max = 0;
};

// Lists `options.folder` and picks its files by extension, in upper or lower case; where that is no
// format's, by content, and what patterns name as what the caller says. Without a format, the one
// that most files have: by the content of a few of each extension, else by extension; with those
// that are read together (Format::family). Order is DLIO's: by path, or by base name where all
// files lie exactly one folder down; with patterns theirs.
Result<Discovery> discover(storage::Store& store, const IndexOptions& options,
                           ProblemList& problems);

}  // namespace forebay::dataset
