#include "loader/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "base/sanitizer.h"
#include "sys/memory.h"

namespace forebay::loader {
namespace {

constexpr size_t kPageBytes = 4096;
// Smaller buffers are cut from regions of this size: one mapping each would be too many for the
// kernel, and malloc() keeps what threads free for each other.
constexpr size_t kRegionBytes = 1 << 20;

// Size classes a quarter of a power of two apart: at most 25 % is wasted, and buffers get reused.
size_t capacity_for(size_t size) {
  if (size <= kPageBytes) return kPageBytes;
  const size_t step = std::max(std::bit_floor(size - 1) / 4, kPageBytes);
  return (size + step - 1) / step * step;
}

size_t region_for(size_t capacity) {
  if (base::kHasAddressSanitizer) return capacity;  // it guards the ends of regions
  return std::max<size_t>(1, kRegionBytes / capacity) * capacity;
}

}  // namespace

struct BufferPool::Shared {
  // Buffers of one capacity that nobody uses.
  struct Idle {
    std::vector<std::byte*> buffers;
    std::vector<std::byte*> empty;  // without memory behind them
    uint64_t last_wanted = 0;       // as `takes` counts
  };
  using Classes = std::map<size_t, Idle>;

  Shared(size_t idle_max, size_t all_max) : idle_bytes_max(idle_max), bytes_max(all_max) {}
  ~Shared() {
    for (const std::span<std::byte> region : regions) sys::unmap_pages(region);
    for (auto& [capacity, list] : idle)
      if (is_alone(capacity))
        for (std::byte* data : list.buffers) sys::unmap_pages({data, region_for(capacity)});
  }

  const size_t idle_bytes_max, bytes_max;
  base::Mutex mutex;
  Classes idle FB_GUARDED_BY(mutex);
  std::vector<std::span<std::byte>> regions FB_GUARDED_BY(mutex);  // of several buffers each
  uint64_t takes FB_GUARDED_BY(mutex) = 0;
  size_t idle_bytes FB_GUARDED_BY(mutex) = 0;
  size_t used_bytes FB_GUARDED_BY(mutex) = 0;
  size_t used_bytes_max FB_GUARDED_BY(mutex) = 0;
  size_t held_bytes_max FB_GUARDED_BY(mutex) = 0;

  // Whether such a buffer is a mapping of its own.
  static bool is_alone(size_t capacity) { return region_for(capacity) < 2 * capacity; }

  void add(size_t bytes) FB_REQUIRES(mutex) {
    used_bytes += bytes;
    used_bytes_max = std::max(used_bytes_max, used_bytes);
  }

  void drop(Classes::iterator from) FB_REQUIRES(mutex) {
    auto& [capacity, list] = *from;
    std::byte* const data = list.buffers.back();
    list.buffers.pop_back();
    idle_bytes -= capacity;
    give_up(data, capacity, list);
  }

  static void give_up(std::byte* data, size_t capacity, Idle& list) {
    if (is_alone(capacity)) {
      sys::unmap_pages({data, region_for(capacity)});
      return;
    }
    sys::forget_pages({data, capacity});
    list.empty.push_back(data);
  }

  // The largest first: few of them make much room.
  void trim() FB_REQUIRES(mutex) {
    auto largest = idle.end();
    while (idle_bytes > 0 && used_bytes + idle_bytes > bytes_max) {
      if (largest == idle.end() || largest->second.buffers.empty())
        --largest;
      else
        drop(largest);
    }
    held_bytes_max = std::max(held_bytes_max, used_bytes + idle_bytes);
  }

  // Room for `capacity` among what is kept, at the cost of sizes that were wanted longer ago: else
  // those of a time that is over fill it, and each buffer that is in demand is made anew.
  bool make_room(size_t capacity) FB_REQUIRES(mutex) {
    while (idle_bytes + capacity > idle_bytes_max) {
      auto oldest = idle.end();
      uint64_t wanted = idle[capacity].last_wanted;
      for (auto it = idle.begin(); it != idle.end(); ++it) {
        if (it->second.buffers.empty() || it->second.last_wanted >= wanted) continue;
        oldest = it;
        wanted = it->second.last_wanted;
      }
      if (oldest == idle.end()) return false;
      drop(oldest);
    }
    return true;
  }

  std::byte* take(size_t capacity) {
    {
      base::MutexLock lock(mutex);
      add(capacity);
      Idle& found = idle[capacity];
      found.last_wanted = ++takes;
      std::byte* data = nullptr;
      if (!found.buffers.empty()) {
        data = found.buffers.back();
        found.buffers.pop_back();
        idle_bytes -= capacity;
      } else if (!found.empty.empty()) {
        data = found.empty.back();
        found.empty.pop_back();
      }
      trim();
      if (data != nullptr) return data;
    }
    const std::span<std::byte> region = sys::map_pages(region_for(capacity));
    if (!is_alone(capacity)) keep_rest(region, capacity);
    return region.data();
  }

  void keep_rest(std::span<std::byte> region, size_t capacity) {
    base::MutexLock lock(mutex);
    regions.push_back(region);
    std::vector<std::byte*>& empty = idle[capacity].empty;
    for (size_t at = capacity; at < region.size(); at += capacity) empty.push_back(&region[at]);
  }

  void give_back(std::byte* data, size_t capacity) {
    base::MutexLock lock(mutex);
    used_bytes -= capacity;
    Idle& list = idle[capacity];
    if (!make_room(capacity)) return give_up(data, capacity, list);
    list.buffers.push_back(data);
    idle_bytes += capacity;
  }
};

BufferPool::BufferPool(size_t idle_bytes_max, size_t bytes_max)
    : shared_(std::make_shared<Shared>(idle_bytes_max, bytes_max)) {}
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
    shared_->trim();
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

size_t BufferPool::bytes_held_max() const {
  base::MutexLock lock(shared_->mutex);
  return shared_->held_bytes_max;
}

size_t BufferPool::bytes_in_use_max() const {
  base::MutexLock lock(shared_->mutex);
  return shared_->used_bytes_max;
}

}  // namespace forebay::loader
