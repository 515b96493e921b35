#include "fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace forebay::python {
namespace {

// Relaxed: only the forking thread lives on in a child, and it counts before anything else runs.
std::atomic<uint64_t> depth{0};

void count() {
  depth.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

uint64_t fork_depth() {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, count);
  return depth.load(std::memory_order_relaxed);
}

}  // namespace forebay::python
