#include "dataset/file_table.h"

namespace forebay::dataset {

void FileTable::reserve(uint64_t files, uint64_t path_bytes) {
  paths_.reserve(path_bytes);
  starts_.reserve(files + 1);
  sizes_.reserve(files);
  mtimes_ns_.reserve(files);
}

void FileTable::add(const storage::FileInfo& file, uint64_t side_key) {
  if (side_key != kNoSides) side_keys_.resize(sizes_.size(), kNoSides);
  if (side_key != kNoSides || !side_keys_.empty()) side_keys_.push_back(side_key);
  paths_ += file.path;
  starts_.push_back(paths_.size());
  sizes_.push_back(file.size);
  mtimes_ns_.push_back(file.mtime_ns);
}

}  // namespace forebay::dataset
