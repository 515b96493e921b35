// Knows a child of fork from its parent. In the child the threads of a loader do not exist, and
// locks may be held by them for ever: what was made before the fork must be left alone there, not
// even destroyed.
//
// Any thread.
#pragma once

#include <cstdint>
#include <utility>

namespace forebay::python {

// Counts the forks between the first process and this one. The first call starts the counting.
uint64_t fork_depth();

class MadeHere {
 public:
  MadeHere() : depth_(fork_depth()) {}
  explicit operator bool() const { return depth_ == fork_depth(); }

 private:
  uint64_t depth_;
};

}  // namespace forebay::python
