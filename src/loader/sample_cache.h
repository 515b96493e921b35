// The bytes of samples, kept in memory once they have been read (reader.read_type: memory). One
// cache serves all engines over the same index.
//
// Safe to use from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/mutex.h"
#include "dataset/index.h"
#include "forebay/result.h"
#include "loader/buffer_pool.h"

namespace forebay::loader {

class SampleCache {
 public:
  // kResourceExhausted when the data set needs more than `bytes_max`; the message names both.
  static Result<std::shared_ptr<SampleCache>> open(const dataset::Index& index, uint64_t bytes_max);

  // What keeping every sample of `index` takes, bookkeeping included.
  static uint64_t bytes_needed(const dataset::Index& index);

  // `part` is the number of the sample or block in its file. Null when it was not read before.
  BufferRef find(uint32_t file, uint64_t part);
  // Keeps `bytes`, unless there are some.
  void add(uint32_t file, uint64_t part, BufferRef bytes);
  // Memory of just this size to read into; pools round up.
  static BufferRef make_buffer(size_t size);

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Key {
    uint32_t file;
    uint64_t part;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  struct Shard {
    base::Mutex mutex;
    std::unordered_map<Key, BufferRef, Hash> samples FB_GUARDED_BY(mutex);
  };
  Shard& shard_of(const Key& key) { return shards_[Hash()(key) % shards_.size()]; }

  std::array<Shard, 64> shards_;
  std::atomic<uint64_t> bytes_{0};  // relaxed: a figure
};

}  // namespace forebay::loader
