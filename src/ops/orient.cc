#include "ops/orient.h"

#include <algorithm>
#include <cstring>

namespace forebay::ops {
namespace {

// Both source and destination of a tile stay in the L1 cache when rows become columns.
constexpr uint64_t kTile = 32;

template <size_t kBytes>
void copy_pixel(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, kBytes == 0 ? bytes : kBytes);
}

template <size_t kBytes>
void orient_pixels(const PixelGrid& grid, int orientation, const std::byte* source,
                   std::byte* destination) {
  const uint64_t height = grid.height, width = grid.width;
  const size_t bytes = grid.pixel_bytes;
  const bool swaps = swaps_sides(orientation);
  const bool flips_rows =
      orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const bool flips_columns =
      orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  // The destination's row index runs over source columns when sides are swapped. A flip is of the
  // destination's axis.
  const uint64_t out_height = swaps ? width : height;
  const uint64_t out_width = swaps ? height : width;
  const auto place = [&](uint64_t row, uint64_t column) {
    uint64_t r = swaps ? column : row;
    uint64_t c = swaps ? row : column;
    if (flips_rows) r = out_height - 1 - r;
    if (flips_columns) c = out_width - 1 - c;
    return (r * out_width + c) * bytes;
  };
  for (uint64_t row0 = 0; row0 < height; row0 += kTile)
    for (uint64_t column0 = 0; column0 < width; column0 += kTile)
      for (uint64_t row = row0; row < std::min(row0 + kTile, height); ++row)
        for (uint64_t column = column0; column < std::min(column0 + kTile, width); ++column)
          copy_pixel<kBytes>(destination + place(row, column),
                             source + (row * width + column) * bytes, bytes);
}

}  // namespace

void orient(const PixelGrid& grid, int orientation, std::span<const std::byte> source,
            std::span<std::byte> destination) {
  const auto run = grid.pixel_bytes == 1   ? orient_pixels<1>
                   : grid.pixel_bytes == 3 ? orient_pixels<3>
                   : grid.pixel_bytes == 4 ? orient_pixels<4>
                                           : orient_pixels<0>;
  run(grid, orientation, source.data(), destination.data());
}

}  // namespace forebay::ops
