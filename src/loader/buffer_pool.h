// Reusable page-aligned memory for bytes in flight and for samples.
//
// Safe to use from any thread. Buffers may outlive the pool; they are then freed on return.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace forebay::loader {

struct Buffer {
  std::byte* data = nullptr;
  size_t size = 0;      // as asked for
  size_t capacity = 0;  // as allocated
  std::span<std::byte> span() const { return {data, size}; }
  bool holds(std::span<const std::byte> bytes) const {
    return bytes.data() >= data && bytes.data() + bytes.size() <= data + capacity;
  }
};

using BufferRef = std::shared_ptr<const Buffer>;

class BufferPool {
 public:
  // Keeps at most `idle_bytes_max` of returned buffers for reuse, and fewer when those and the ones
  // in use are more than `bytes_max` together.
  explicit BufferPool(size_t idle_bytes_max, size_t bytes_max = SIZE_MAX);
  ~BufferPool();

  // At least `size` bytes, not zeroed. Large buffers ask for huge pages.
  BufferRef acquire(size_t size);

  // Counts `bytes` that lie elsewhere as in use for as long as the result lives.
  std::shared_ptr<const void> count(size_t bytes);

  size_t bytes_in_use() const;
  size_t bytes_in_use_max() const;
  size_t bytes_held_max() const;  // in use and idle

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace forebay::loader
