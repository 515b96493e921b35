#include "loader/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace forebay::loader {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = 2 << 20;

// Size classes a quarter of a power of two apart: at most 25 % is wasted, and buffers get reused.
size_t capacity_for(size_t size) {
  if (size <= kPageBytes) return kPageBytes;
  const size_t step = std::max(std::bit_floor(size - 1) / 4, kPageBytes);
  return (size + step - 1) / step * step;
}

}  // namespace

struct BufferPool::Shared {
  explicit Shared(size_t idle_max) : idle_bytes_max(idle_max) {}
  ~Shared() {
    for (auto& [capacity, list] : idle)
      for (std::byte* data : list) std::free(data);
  }

  const size_t idle_bytes_max;
  base::Mutex mutex;
  std::map<size_t, std::vector<std::byte*>> idle FB_GUARDED_BY(mutex);
  size_t idle_bytes FB_GUARDED_BY(mutex) = 0;
  size_t used_bytes FB_GUARDED_BY(mutex) = 0;
  size_t used_bytes_max FB_GUARDED_BY(mutex) = 0;

  void add(size_t bytes) FB_REQUIRES(mutex) {
    used_bytes += bytes;
    used_bytes_max = std::max(used_bytes_max, used_bytes);
  }

  std::byte* take(size_t capacity) {
    {
      base::MutexLock lock(mutex);
      add(capacity);
      const auto found = idle.find(capacity);
      if (found != idle.end() && !found->second.empty()) {
        std::byte* data = found->second.back();
        found->second.pop_back();
        idle_bytes -= capacity;
        return data;
      }
    }
    const size_t alignment = capacity >= kHugePageBytes ? kHugePageBytes : kPageBytes;
    const size_t rounded = (capacity + alignment - 1) / alignment * alignment;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
    FB_CHECK(data !=
             nullptr);  // memory is bounded by options; none left is not a state to go on in
    return data;
  }

  void give_back(std::byte* data, size_t capacity) {
    {
      base::MutexLock lock(mutex);
      used_bytes -= capacity;
      if (idle_bytes + capacity <= idle_bytes_max) {
        idle[capacity].push_back(data);
        idle_bytes += capacity;
        return;
      }
    }
    std::free(data);
  }
};

BufferPool::BufferPool(size_t idle_bytes_max) : shared_(std::make_shared<Shared>(idle_bytes_max)) {}
BufferPool::~BufferPool() = default;

BufferRef BufferPool::acquire(size_t size) {
  const size_t capacity = capacity_for(size);
  auto buffer = std::make_unique<Buffer>(Buffer{shared_->take(capacity), size, capacity});
  return BufferRef(buffer.release(), [shared = shared_](const Buffer* returned) {
    std::unique_ptr<const Buffer> owner(returned);
    shared->give_back(owner->data, owner->capacity);
  });
}

std::shared_ptr<const void> BufferPool::count(size_t bytes) {
  {
    base::MutexLock lock(shared_->mutex);
    shared_->add(bytes);
  }
  return {nullptr, [shared = shared_, bytes](const void*) {
            base::MutexLock lock(shared->mutex);
            shared->used_bytes -= bytes;
          }};
}

size_t BufferPool::bytes_in_use() const {
  base::MutexLock lock(shared_->mutex);
  return shared_->used_bytes;
}

size_t BufferPool::bytes_in_use_max() const {
  base::MutexLock lock(shared_->mutex);
  return shared_->used_bytes_max;
}

}  // namespace forebay::loader
