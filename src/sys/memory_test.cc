#include "sys/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace forebay::sys {
namespace {

TEST(Memory, LargeBuffersCanBeWrittenToTheirEnd) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4} << 20, (size_t{5} << 20) + 1}) {
    const LargeBuffer buffer = allocate_large(bytes);
    ASSERT_NE(buffer, nullptr);
    std::ranges::fill(std::span(buffer.get(), bytes), std::byte{7});
    if (bytes >= size_t{4} << 20) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.get()) % (2u << 20), 0u);
    }
  }
}

}  // namespace
}  // namespace forebay::sys
