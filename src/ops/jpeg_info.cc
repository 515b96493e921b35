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

Error truncated(std::span<const std::byte> bytes) {
  return fail(ErrorCode::kCorruption, "truncated at byte {}", bytes.size());
}

}  // namespace

Result<JpegInfo> read_jpeg_info(std::span<const std::byte> bytes) {
  JpegInfo info;
  bool has_frame = false, has_exif = false;
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
  info.scan_offset = at;
  return info;
}

}  // namespace forebay::ops
