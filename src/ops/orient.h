// Turns and mirrors pixels so that the image stands as the camera saw it (EXIF orientation 1..8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace forebay::ops {

struct PixelGrid {
  uint64_t height = 0, width = 0;
  size_t pixel_bytes = 0;  // all channels of one pixel
};

// Orientations 5..8 exchange height and width.
constexpr bool swaps_sides(int orientation) {
  return orientation >= 5;
}

// From `source` (height x width) to `destination`, which must not overlap. 2 <= orientation <= 8.
void orient(const PixelGrid& grid, int orientation, std::span<const std::byte> source,
            std::span<std::byte> destination);

}  // namespace forebay::ops
