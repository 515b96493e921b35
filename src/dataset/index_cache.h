// The file that remembers how samples lie in files, so that a second discovery opens none of them.
//
// It is never trusted: what cannot be read whole, belongs to other options or contradicts itself is
// an error, and an entry counts only for a file of the same path, size and time. Layout (little
// endian):
//
//   magic "FBINDEX2", u64 options key, u64 files, u64 layouts, u64 path bytes
//   per layout: u8 access, u64 samples, u64 extents, u64 blocks, u64 detail bytes, u8 has array
//     per extent: u64 offset, u64 length
//     the array of every extent, if any: u8 type, u8 order (1 big endian, 2 Fortran order),
//       u64 dimensions, then u64 each
//     per block:  u64 samples, u64 extents, then u64 offset and u64 length of each
//     the detail
//   per file:   u64 size, i64 mtime_ns, u32 layout, u32 path bytes
//   all paths, one behind the other; u32 CRC32C of everything before it
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dataset/file_table.h"
#include "dataset/sample_table.h"
#include "forebay/result.h"
#include "formats/format.h"

namespace forebay::dataset {

class IndexCache {
 public:
  IndexCache() = default;

  // kCorruption, naming the byte, for anything but an intact cache of exactly these options.
  static Result<IndexCache> decode(std::span<const std::byte> bytes, uint64_t options_key);

  static std::vector<std::byte> encode(const FileTable& files, const SampleTable& samples,
                                       uint64_t options_key);

  uint64_t file_count() const { return files_.size(); }

  // Null for a file that is unknown, has changed or has no time to tell a change by.
  const formats::FileIndex* find(std::string_view path, uint64_t size, int64_t mtime_ns) const;

 private:
  struct File {
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    uint32_t layout = 0;
  };
  std::vector<formats::FileIndex> layouts_;
  std::unordered_map<std::string, File> files_;
};

}  // namespace forebay::dataset
