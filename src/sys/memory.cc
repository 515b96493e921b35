#include "sys/memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/check.h"

namespace forebay::sys {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

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
  ::madvise(buffer.get(), rounded, MADV_HUGEPAGE);  // a kernel that refuses gives small pages
  return buffer;
}

}  // namespace forebay::sys
