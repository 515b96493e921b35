// The file of an index cache: what several data sets hold, so that they can share one. Layout
// (little endian):
//
//   magic "FBINDEXS", u64 data sets; of each: u64 its key, u64 options key, u64 bytes of its cache
//   u32 CRC32C of all that; their caches (dataset/index_cache.h), the last written one first
//
// Functions are safe to call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forebay/result.h"

namespace forebay::dataset {

struct CachedDataSet {
  uint64_t key = 0;          // of the options and the place of the files
  uint64_t options_key = 0;  // as IndexCache::decode wants it
  std::span<const std::byte> cache;
};

// kCorruption for a file that is none, or is cut. The caches lie in `bytes`, and are not looked at.
Result<std::vector<CachedDataSet>> split_cache_file(std::span<const std::byte> bytes);

// `newest` before those in `others` that have another key; of all of them the first 16.
std::vector<std::byte> join_cache_file(const CachedDataSet& newest,
                                       std::span<const CachedDataSet> others);

}  // namespace forebay::dataset
