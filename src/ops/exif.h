// Finds the orientation that a camera noted. Broken metadata counts as none, as Pillow treats it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace forebay::ops {

// 1..8 from a TIFF block (what follows "Exif\0\0"); 0 when there is none or it is broken.
int exif_orientation(std::span<const std::byte> tiff);

// 1..8 from an XMP packet (tiff:Orientation); 0 when there is none.
int xmp_orientation(std::string_view xmp);

}  // namespace forebay::ops
