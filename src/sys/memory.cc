#include "sys/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "base/sanitizer.h"
#include "sys/file.h"

namespace forebay::sys {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kPageBytes = 4096;

}  // namespace

void FreeMemory::operator()(std::byte* data) const {
  std::free(data);
}

LargeBuffer allocate_large(size_t bytes) {
  if (bytes < 2 * kHugePageBytes) {
    LargeBuffer buffer(static_cast<std::byte*>(std::malloc(bytes > 0 ? bytes : 1)));
    FB_CHECK(buffer != nullptr);
    return buffer;
  }
  const size_t rounded = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  LargeBuffer buffer(static_cast<std::byte*>(std::aligned_alloc(kHugePageBytes, rounded)));
  FB_CHECK(buffer != nullptr);
  advise_huge_pages({buffer.get(), rounded});
  return buffer;
}

void advise_huge_pages(std::span<std::byte> memory) {
  ::madvise(memory.data(), memory.size(), MADV_HUGEPAGE);
}

std::span<std::byte> map_pages(size_t bytes) {
  if constexpr (base::kHasAddressSanitizer) {
    auto* const data = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes));
    FB_CHECK(data != nullptr);
    return {data, bytes};
  }
  const size_t spare = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* const data = ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FB_CHECK(data != MAP_FAILED);
  const std::span<std::byte> all(static_cast<std::byte*>(data), bytes + spare);
  if (spare == 0) return all;
  void* begin = data;
  size_t room = all.size();
  FB_CHECK(std::align(kHugePageBytes, bytes, begin, room) != nullptr);
  const size_t before = all.size() - room;
  if (before > 0) unmap_pages(all.first(before));
  if (before < spare) unmap_pages(all.subspan(before + bytes));
  advise_huge_pages(all.subspan(before, bytes));
  return all.subspan(before, bytes);
}

void unmap_pages(std::span<std::byte> pages) {
  if constexpr (base::kHasAddressSanitizer)
    std::free(pages.data());
  else
    ::munmap(pages.data(), pages.size());
}

void forget_pages(std::span<std::byte> pages) {
  ::madvise(pages.data(), pages.size(), MADV_DONTNEED);
}

Result<SharedMemory> SharedMemory::map(int fd, size_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return error_from_errno(errno, "shared memory", "mapping");
  return SharedMemory(static_cast<std::byte*>(data), bytes);
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace forebay::sys
