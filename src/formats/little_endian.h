// Loads and stores of little-endian integers at any alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace forebay::formats {

static_assert(std::endian::native == std::endian::little, "loads below copy bytes as they are");

// `bytes` must hold sizeof(T) bytes.
template <class T>
T load_le(const std::byte* bytes) {
  static_assert(std::is_unsigned_v<T>);
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <class T>
void store_le(std::byte* bytes, std::type_identity_t<T> value) {
  static_assert(std::is_unsigned_v<T>);
  std::memcpy(bytes, &value, sizeof value);
}

}  // namespace forebay::formats
