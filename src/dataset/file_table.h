// Paths, sizes and times of a data set's files in a few large arrays: about 30 bytes a file beside
// its path, so that millions fit in memory.
//
// Immutable once filled; then safe to use from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/store.h"

namespace forebay::dataset {

class FileTable {
 public:
  // What side_key() says of files whose layout no other file tells, and of those with a side file
  // that has no time: nothing then shows whether it has changed.
  static constexpr uint64_t kNoSides = 0, kSidesUnknown = 1;

  void reserve(uint64_t files, uint64_t path_bytes);
  void add(const storage::FileInfo& file, uint64_t side_key = kNoSides);

  uint64_t count() const { return sizes_.size(); }
  std::string_view path(uint64_t file) const {
    return std::string_view(paths_).substr(starts_[file], starts_[file + 1] - starts_[file]);
  }
  uint64_t bytes(uint64_t file) const { return sizes_[file]; }
  int64_t mtime_ns(uint64_t file) const { return mtimes_ns_[file]; }
  // Changes with the presence, the size and the time of each file that lies beside this one and
  // says where its samples are (Format::side_paths).
  uint64_t side_key(uint64_t file) const {
    return side_keys_.empty() ? kNoSides : side_keys_[file];
  }
  storage::FileInfo info(uint64_t file) const {
    return {.path = std::string(path(file)), .size = bytes(file), .mtime_ns = mtime_ns(file)};
  }

 private:
  std::string paths_;                // one behind the other
  std::vector<uint64_t> starts_{0};  // of each path, and the end of the last
  std::vector<uint64_t> sizes_;
  std::vector<int64_t> mtimes_ns_;
  std::vector<uint64_t> side_keys_;  // empty while all are kNoSides
};

}  // namespace forebay::dataset
