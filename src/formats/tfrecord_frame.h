// The framing of TFRecord files: length, CRC of the length, data, CRC of the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/crc.h"
#include "formats/little_endian.h"

namespace forebay::formats {

constexpr size_t kFrameHeaderBytes = 12;  // u64 length, u32 masked CRC32C of it
constexpr size_t kFrameTrailerBytes = 4;  // u32 masked CRC32C of the data
constexpr size_t kFrameBytes = kFrameHeaderBytes + kFrameTrailerBytes;

// CRCs of bytes that contain CRCs are weak; TFRecord rotates and shifts them.
constexpr uint32_t mask_crc(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

struct FrameHeader {
  uint64_t length = 0;
  uint32_t crc = 0;       // as stored
  uint32_t expected = 0;  // of the stored length
  bool ok() const { return crc == expected; }
};

// `bytes` holds kFrameHeaderBytes.
inline FrameHeader parse_frame_header(std::span<const std::byte> bytes) {
  return {load_le<uint64_t>(bytes.data()), load_le<uint32_t>(bytes.data() + 8),
          mask_crc(base::crc32c(0, bytes.first(8)))};
}

}  // namespace forebay::formats
