#include "loader/sample_cache.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/units.h"

namespace forebay::loader {
namespace {

constexpr uint64_t kOverheadBytes = 160;  // of an entry: node, control block, allocator
constexpr size_t kAlignment = 64;         // decoders like whole cache lines

}  // namespace

size_t SampleCache::Hash::operator()(const Key& key) const {
  return base::mix64(base::mix64(key.file) ^ key.part);
}

uint64_t SampleCache::bytes_needed(const dataset::Index& index) {
  return index.summary().bytes + index.sample_count() * (kOverheadBytes + kAlignment);
}

Result<std::shared_ptr<SampleCache>> SampleCache::open(const dataset::Index& index,
                                                       uint64_t bytes_max) {
  const uint64_t needed = bytes_needed(index);
  if (needed > bytes_max)
    return fail(ErrorCode::kResourceExhausted,
                "keeping {} samples in memory needs {}, but {} are available: read on demand, use "
                "fewer files, or raise the memory limit",
                index.sample_count(), base::format_memory(static_cast<double>(needed)),
                base::format_memory(static_cast<double>(bytes_max)));
  return std::make_shared<SampleCache>();
}

BufferRef SampleCache::find(uint32_t file, uint64_t part) {
  const Key key{file, part};
  Shard& shard = shard_of(key);
  const base::MutexLock lock(shard.mutex);
  const auto found = shard.samples.find(key);
  return found == shard.samples.end() ? nullptr : found->second;
}

BufferRef SampleCache::make_buffer(size_t size) {
  const size_t capacity = std::max(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  auto buffer = std::make_unique<Buffer>();
  buffer->data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, capacity));
  FB_CHECK(buffer->data != nullptr);  // open() made sure that there is enough
  buffer->size = size;
  buffer->capacity = capacity;
  return BufferRef(buffer.release(), [](const Buffer* old) {
    const std::unique_ptr<const Buffer> owner(old);
    std::free(owner->data);
  });
}

void SampleCache::add(uint32_t file, uint64_t part, BufferRef bytes) {
  const Key key{file, part};
  const size_t capacity = bytes->capacity;
  Shard& shard = shard_of(key);
  const base::MutexLock lock(shard.mutex);
  if (shard.samples.emplace(key, std::move(bytes)).second)
    bytes_.fetch_add(capacity, std::memory_order_relaxed);
}

}  // namespace forebay::loader
