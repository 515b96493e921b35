// Advice to the kernel about memory.
//
// Safe to call from any thread.
#pragma once

#include <cstddef>
#include <memory>

namespace forebay::sys {

struct FreeMemory {
  void operator()(std::byte* data) const;
};
using LargeBuffer = std::unique_ptr<std::byte[], FreeMemory>;

// Not initialised. From 4 MiB on it asks for huge pages: touching it for the first time then costs
// a fraction. Aborts when there is no memory, as operator new does.
LargeBuffer allocate_large(size_t bytes);

}  // namespace forebay::sys
