// CRC32 (zip, PNG, gzip) and CRC32C (TFRecord), by ISA-L with the processor's carry-less multiply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace forebay::base {

// CRC of the bytes so far and `bytes` together. Start with 0.
uint32_t crc32(uint32_t crc, std::span<const std::byte> bytes);
uint32_t crc32c(uint32_t crc, std::span<const std::byte> bytes);

}  // namespace forebay::base
