// Makes an image's pixels: decodes what is needed of it, crops and resizes. image.h explains.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/image.h"

namespace forebay::ops {

// Pixels without flips and points, in the workspace or where they were.
Result<ImageView> render_image(Workspace& workspace, const Image& image);

// ITU-R 601-2 luma with Pillow's weights.
template <class T>
T luma(T r, T g, T b) {
  const uint64_t sum = uint64_t{r} * 19595 + uint64_t{g} * 38470 + uint64_t{b} * 7471 + 0x8000;
  return static_cast<T>(sum >> 16);
}

}  // namespace forebay::ops
