// What remembers how samples of a data set lie in files, so that a second discovery opens none of
// them. A file of caches (dataset/index_cache_file.h) holds it.
//
// It is never trusted: what cannot be read whole, belongs to other options or contradicts itself is
// an error, and an entry counts only for a file of the same path, size and time, whose side files
// (FileTable::side_key) are the same too. Layout (little endian):
//
//   magic "FBINDEX6", u64 options key, u64 files, u64 layouts, u64 path bytes
//   per layout: u8 access, u64 samples, u64 extents, u64 blocks, u64 detail bytes, u64 problems,
//       u8 has array, u8 has a stride
//     with a stride: u64 stride, then u64 offset and u64 length of the first extent; without: those
//       of each extent
//     the array of every extent, if any: u8 type, u8 order (1 big endian, 2 Fortran order),
//       u64 dimensions, then u64 each
//     per block:  u64 samples, u64 extents, then u64 offset and u64 length of each
//     the detail; per problem: u64 bytes, then those; u8 has damage, then u64 offset and its text
//     as
//       a problem's
//   per file:   u64 size, i64 mtime_ns, u64 side key, u32 layout, u32 path bytes
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

  // Null for a file that is unknown, has changed or has no time to tell a change by, itself or one
  // of its side files.
  const formats::FileIndex* find(const storage::FileInfo& file,
                                 uint64_t side_key = FileTable::kNoSides) const;

 private:
  struct File {
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    uint64_t side_key = 0;
    uint32_t layout = 0;
  };
  std::vector<formats::FileIndex> layouts_;
  std::unordered_map<std::string, File> files_;
};

}  // namespace forebay::dataset
