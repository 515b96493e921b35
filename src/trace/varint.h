// Integers in one to ten bytes: seven bits a byte, the lowest first, the high bit set when more
// follow (LEB128). Signed ones are zigzag-coded so that small negatives are short too.
//
// Pure functions on caller's memory. Foreign bytes: VarintReader never reads past its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace forebay::trace {

inline void put_varint(std::vector<std::byte>& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<std::byte>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<std::byte>(value));
}

inline size_t varint_size(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

inline uint64_t zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
inline int64_t unzigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

class VarintReader {
 public:
  explicit VarintReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // 0 past the end or for a number of more than 64 bits; is_bad() tells.
  uint64_t next() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) break;
      const auto byte = static_cast<uint64_t>(bytes_[at_++]);
      if (shift == 63 && byte > 1) break;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    is_bad_ = true;
    at_ = bytes_.size();
    return 0;
  }

  // The next `count` bytes; empty and bad when there are fewer.
  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      is_bad_ = true;
      at_ = bytes_.size();
      return {};
    }
    const auto taken = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return taken;
  }

  bool is_bad() const { return is_bad_; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool is_bad_ = false;
};

}  // namespace forebay::trace
