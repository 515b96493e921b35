#include "ops/exif.h"

#include <cstdint>

namespace forebay::ops {
namespace {

constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kShort = 3;
constexpr uint16_t kLong = 4;
constexpr size_t kEntryBytes = 12;

// Integers of a TIFF block in its own byte order; reads outside the block are 0.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool begin() {
    if (bytes_.size() < 8) return false;
    is_big_ = bytes_[0] == std::byte{'M'} && bytes_[1] == std::byte{'M'};
    const bool is_little = bytes_[0] == std::byte{'I'} && bytes_[1] == std::byte{'I'};
    return (is_big_ || is_little) && u16(2) == 42;
  }
  bool has(size_t offset, size_t bytes) const {
    return offset <= bytes_.size() && bytes <= bytes_.size() - offset;
  }
  uint16_t u16(size_t offset) const { return static_cast<uint16_t>(number(offset, 2)); }
  uint32_t u32(size_t offset) const { return number(offset, 4); }

 private:
  uint32_t number(size_t offset, size_t bytes) const {
    if (!has(offset, bytes)) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      const size_t at = offset + (is_big_ ? i : bytes - 1 - i);
      value = value << 8 | static_cast<uint32_t>(bytes_[at]);
    }
    return value;
  }
  std::span<const std::byte> bytes_;
  bool is_big_ = false;
};

int valid(uint32_t orientation) {
  return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 0;
}

}  // namespace

int exif_orientation(std::span<const std::byte> bytes) {
  Tiff tiff(bytes);
  if (!tiff.begin()) return 0;
  const size_t directory = tiff.u32(4);
  if (!tiff.has(directory, 2)) return 0;
  const size_t count = tiff.u16(directory);
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (!tiff.has(entry, kEntryBytes)) return 0;
    if (tiff.u16(entry) != kOrientationTag) continue;
    const uint16_t type = tiff.u16(entry + 2);
    if (tiff.u32(entry + 4) != 1) return 0;
    if (type == kShort) return valid(tiff.u16(entry + 8));
    if (type == kLong) return valid(tiff.u32(entry + 8));
    return 0;
  }
  return 0;
}

int xmp_orientation(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != std::string_view::npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    // As an attribute (="6") or as an element (>6<).
    if (rest.substr(0, 2) == "=\"")
      rest.remove_prefix(2);
    else if (rest.substr(0, 1) == ">")
      rest.remove_prefix(1);
    else
      continue;
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9')
      return valid(static_cast<uint32_t>(rest[0] - '0'));
  }
  return 0;
}

}  // namespace forebay::ops
