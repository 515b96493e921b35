// Page-aligned memory, taken when first asked for.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/check.h"

namespace forebay::storage {

constexpr size_t kPageBytes = 4096;

class AlignedBuffer {
 public:
  // `bytes` of memory whose content is undefined; what an earlier call returned is gone when it is
  // larger than that was.
  std::span<std::byte> at_least(size_t bytes) {
    if (bytes > bytes_) {
      bytes_ = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes_)));
      FB_CHECK(memory_ != nullptr);
    }
    return {memory_.get(), bytes};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t bytes_ = 0;
};

}  // namespace forebay::storage
