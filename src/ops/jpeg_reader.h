// Rows of a JPEG: all of them, or those of a rectangle only, at 8, 4, 2 or 1 eighths of its size.
//
// One thread at a time. What lies outside the rectangle is passed over: rows below it are not even
// read, other pixels are not transformed. Rows of a rectangle are those that the whole image has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "forebay/result.h"
#include "ops/decode.h"
#include "ops/image_info.h"

namespace forebay::ops {

enum class JpegPixels { kGrey, kRgb, kRgba, kCmyk };  // kRgba: alpha is 255; kCmyk: as stored
inline uint32_t channels_of(JpegPixels pixels) {
  return pixels == JpegPixels::kGrey ? 1 : pixels == JpegPixels::kRgb ? 3 : 4;
}

struct Rectangle {
  uint32_t x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Rectangle&) const = default;
};

struct JpegRequest {
  JpegPixels pixels = JpegPixels::kRgb;
  uint32_t eighths = 8;  // scale: the image is ceil(side * eighths / 8) pixels wide and high
  Rectangle area{};      // in pixels of that size, within it
};

class RowSink {
 public:
  virtual ~RowSink() = default;
  // Row `y` of the rectangle; 64 bytes before and after its pixels may be read.
  virtual void row(uint32_t y, const std::byte* pixels) = 0;
};

class JpegReader {
 public:
  explicit JpegReader(const DecodeOptions& options);
  ~JpegReader();

  // The header, after everything that can be refused by it: "not a JPEG", "truncated at byte N".
  Result<JpegInfo> open(std::span<const std::byte> bytes) const;

  // Messages do not name the file. A file without its end marker is refused, whatever is asked for.
  Status read(std::span<const std::byte> bytes, const JpegInfo& info, const JpegRequest& request,
              RowSink& sink);
  // Whole and tightly packed.
  Status read_all(std::span<const std::byte> bytes, const JpegInfo& info, JpegPixels pixels,
                  std::span<std::byte> out);

 private:
  class Impl;
  DecodeOptions options_;
  std::unique_ptr<Impl> impl_;  // made by the first image
};

// Light of four-component pixels as a file stores them: ink unless it has an Adobe marker.
void cmyk_to_rgb(std::span<const std::byte> cmyk, bool is_ink, std::span<std::byte> out,
                 size_t out_step);

}  // namespace forebay::ops
