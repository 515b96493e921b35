// What image headers say: sides, channels, orientation. Reads headers only and allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "forebay/result.h"

namespace forebay::ops {

struct JpegInfo {
  uint32_t width = 0, height = 0;
  int components = 0;
  size_t scan_offset = 0;  // of the first scan
  // Of all its coefficients, which are in memory at once when they come in several scans, as in
  // progressive files; else 0.
  uint64_t coefficient_bytes = 0;
  int precision = 8;       // bits per sample
  bool has_adobe = false;  // an Adobe marker: four-component images are stored inverted
  int orientation = 1;     // 1..8 from the first EXIF block, 1 when there is none or it is broken
};

// kCorruption "truncated at byte N" and the like, without a file name.
Result<JpegInfo> read_jpeg_info(std::span<const std::byte> bytes);

struct PngInfo {
  uint32_t width = 0, height = 0;
  int bit_depth = 8;   // 1, 2, 4, 8, 16
  int color_type = 0;  // 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA
  bool is_interlaced = false;
  bool has_transparency = false;            // a tRNS chunk
  std::span<const std::byte> palette;       // RGB triples
  bool has_end = false;                     // an IEND chunk; a file without one was cut off
  std::span<const std::byte> transparency;  // the tRNS chunk
  int orientation = 1;  // from eXIf, an ImageMagick profile or XMP, in this order
};

Result<PngInfo> read_png_info(std::span<const std::byte> bytes);

// Name and offset of the first chunk whose CRC is wrong or that is cut off; ok when all are whole.
Status check_png_chunks(std::span<const std::byte> bytes);

}  // namespace forebay::ops
