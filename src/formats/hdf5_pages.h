// The metadata of one HDF5 file, as pages of its bytes that are kept.
//
// One thread at a time; the store must outlive the pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::formats {

class Hdf5Pages {
 public:
  Hdf5Pages(storage::Store& store, const storage::FileInfo& file)
      : store_(store), path_(file.path), size_(file.size) {}

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

  // Copies from the pages that are there. False when one is absent: wanted() is its number then.
  bool copy(uint64_t offset, std::span<std::byte> out);
  std::optional<uint64_t> wanted() const { return wanted_; }

  // Reads the page from the store, and further ones behind it where the last one led there.
  // kResourceExhausted when the metadata are larger than can be.
  Status fetch(uint64_t page);

  uint64_t fetch_count() const { return fetch_count_; }

 private:
  storage::Store& store_;
  std::string path_;
  uint64_t size_;
  std::map<uint64_t, std::vector<std::byte>> pages_;  // by number
  std::optional<uint64_t> wanted_;
  uint64_t next_page_ = 0;   // behind the last that was fetched
  uint64_t read_pages_ = 1;  // fetched at once; doubles while reading goes on
  uint64_t fetch_count_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace forebay::formats
