// Advice to the kernel about memory.
//
// Safe to call from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "forebay/result.h"

namespace forebay::sys {

struct FreeMemory {
  void operator()(std::byte* data) const;
};
using LargeBuffer = std::unique_ptr<std::byte[], FreeMemory>;

// Not initialised. From 4 MiB on it asks for huge pages: touching it for the first time then costs
// a fraction. Aborts when there is no memory, as operator new does.
LargeBuffer allocate_large(size_t bytes);

// Asks for huge pages; a kernel that refuses gives small ones.
void advise_huge_pages(std::span<std::byte> memory);

// Whole pages straight from the kernel, not initialised; from 2 MiB on they begin at a huge page
// and ask for such. Given back, they are the system's at once, which malloc()'s need not be. Aborts
// when there is no room, as operator new does. Under AddressSanitizer they come from malloc(),
// which guards their ends.
std::span<std::byte> map_pages(size_t bytes);
void unmap_pages(std::span<std::byte> pages);
// Gives the memory behind whole pages back to the kernel; they stay mapped and hold zeroes.
void forget_pages(std::span<std::byte> pages);

// The memory behind a descriptor, shared with whoever else maps it: the kernel, for its rings.
class SharedMemory {
 public:
  static Result<SharedMemory> map(int fd, size_t bytes);
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  SharedMemory(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace forebay::sys
