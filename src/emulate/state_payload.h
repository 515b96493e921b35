// The bytes of emulated states, made while they are written: a buffer of random bytes that is
// stamped anew for each use, so that no two blocks of 4 KiB are ever equal. Nothing to compress or
// to store once, and no memory but the buffer, whatever the state's size.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sys/memory.h"

namespace forebay::emulate {

class StatePayload {
 public:
  // `is_random` false: all bytes are 1.
  StatePayload(uint64_t seed, bool is_random, uint64_t bytes_max);

  // [begin, begin + bytes) of the file `identity`, at most bytes_max and begin a multiple of 4096;
  // good until the next call, and aligned for O_DIRECT.
  std::span<const std::byte> piece(uint64_t identity, uint64_t begin, uint64_t bytes);

 private:
  const bool is_random_;
  const uint64_t bytes_max_;
  sys::LargeBuffer memory_;
  std::byte* begin_ = nullptr;  // its first aligned byte
};

}  // namespace forebay::emulate
