// Scratch that grows and is never cleared: large records are not written twice.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace forebay::formats {

class ByteBuffer {
 public:
  // At least `bytes` bytes of unspecified content; earlier spans become invalid when it grows.
  std::span<std::byte> reserve(uint64_t bytes) {
    if (bytes > capacity_) {
      data_.reset();  // both at once would double the peak
      data_.reset(new std::byte[bytes]);
      capacity_ = bytes;
    }
    return {data_.get(), bytes};
  }

  // Bytes it has.
  uint64_t capacity() const { return capacity_; }

 private:
  std::unique_ptr<std::byte[]> data_;
  uint64_t capacity_ = 0;
};

}  // namespace forebay::formats
