#include "base/crc.h"

#include <isa-l/crc.h>

#include <climits>

namespace forebay::base {

uint32_t crc32(uint32_t crc, std::span<const std::byte> bytes) {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

uint32_t crc32c(uint32_t crc, std::span<const std::byte> bytes) {
  // crc32_iscsi takes an int length and works on the inverted register.
  uint32_t state = ~crc;
  while (!bytes.empty()) {
    const size_t n = bytes.size() < INT_MAX ? bytes.size() : INT_MAX;
    auto* p = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    state = crc32_iscsi(p, static_cast<int>(n), state);
    bytes = bytes.subspan(n);
  }
  return ~state;
}

}  // namespace forebay::base
