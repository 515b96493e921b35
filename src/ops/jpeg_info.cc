#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "ops/exif.h"
#include "ops/image_info.h"

namespace forebay::ops {
namespace {

constexpr int kStartOfScan = 0xda, kEndOfImage = 0xd9, kApp1 = 0xe1, kApp14 = 0xee;

bool is_frame(int marker) {  // SOF0..SOF15 without DHT, JPG and DAC
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

bool is_bare(int marker) {  // markers without a segment: TEM, RST0..7, SOI
  return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
}

uint32_t be16(std::span<const std::byte> bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at]) << 8 | static_cast<uint32_t>(bytes[at + 1]);
}

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() &&
         std::string_view(reinterpret_cast<const char*>(bytes.data()), text.size()) == text;
}

// Coefficients of 16 bits, in whole blocks of each component; none in a header that says nonsense,
// which the decoder refuses.
uint64_t coefficient_bytes(const JpegInfo& info, std::span<const std::byte> frame) {
  constexpr uint64_t kBlockSide = 8, kBlockBytes = 128;
  const auto count = static_cast<size_t>(info.components);
  if (frame.size() < 6 + 3 * count) return 0;
  const auto sampling = [&](size_t component) {
    return static_cast<uint64_t>(frame[7 + 3 * component]);
  };
  uint64_t across_max = 1, down_max = 1;
  for (size_t c = 0; c < count; ++c) {
    across_max = std::max(across_max, sampling(c) >> 4);
    down_max = std::max(down_max, sampling(c) & 15);
  }
  const uint64_t units = ((info.width + kBlockSide * across_max - 1) / (kBlockSide * across_max)) *
                         ((info.height + kBlockSide * down_max - 1) / (kBlockSide * down_max));
  uint64_t blocks = 0;
  for (size_t c = 0; c < count; ++c) blocks += units * (sampling(c) >> 4) * (sampling(c) & 15);
  return blocks * kBlockBytes;
}

Error truncated(std::span<const std::byte> bytes) {
  return fail(ErrorCode::kCorruption, "truncated at byte {}", bytes.size());
}

}  // namespace

Result<JpegInfo> read_jpeg_info(std::span<const std::byte> bytes) {
  JpegInfo info;
  bool has_frame = false, has_exif = false, has_scans = false;
  uint64_t coefficients = 0;
  size_t at = 2;  // behind SOI
  for (;;) {
    // Decoders skip junk between segments; so does this.
    while (at < bytes.size() && bytes[at] != std::byte{0xff}) ++at;
    while (at < bytes.size() && bytes[at] == std::byte{0xff}) ++at;
    if (at >= bytes.size()) return truncated(bytes);
    const int marker = static_cast<int>(bytes[at++]);
    if (marker == 0 || is_bare(marker)) continue;
    if (marker == kEndOfImage || marker == kStartOfScan) break;
    if (bytes.size() - at < 2) return truncated(bytes);
    const size_t length = be16(bytes, at);
    if (length < 2)
      return fail(ErrorCode::kCorruption, "segment {:#04x} at byte {} has length {}", marker,
                  at - 2, length);
    if (length > bytes.size() - at) return truncated(bytes);
    const auto segment = bytes.subspan(at + 2, length - 2);
    if (is_frame(marker) && !has_frame) {
      if (segment.size() < 6)
        return fail(ErrorCode::kCorruption, "frame header at byte {} is too short", at - 2);
      info.precision = static_cast<int>(segment[0]);
      info.height = be16(segment, 1);
      info.width = be16(segment, 3);
      info.components = static_cast<int>(segment[5]);
      coefficients = coefficient_bytes(info, segment);
      has_scans = (marker & 3) == 2;  // progressive
      has_frame = true;
    } else if (marker == kApp1 && !has_exif &&
               starts_with(segment, std::string_view("Exif\0", 5))) {
      has_exif = true;
      const int orientation = segment.size() > 6 ? exif_orientation(segment.subspan(6)) : 0;
      if (orientation > 0) info.orientation = orientation;
    } else if (marker == kApp14 && segment.size() >= 12 && starts_with(segment, "Adobe")) {
      info.has_adobe = true;
    }
    at += length;
  }
  if (!has_frame) return fail(ErrorCode::kCorruption, "no frame header before byte {}", at);
  if (info.width == 0 || info.height == 0)
    return fail(ErrorCode::kCorruption, "an image of {} x {} pixels", info.width, info.height);
  // A first scan without all components means that there are more.
  if (at + 2 < bytes.size() && static_cast<int>(bytes[at + 2]) < info.components) has_scans = true;
  if (has_scans) info.coefficient_bytes = coefficients;
  info.scan_offset = at;
  return info;
}

}  // namespace forebay::ops
