// Record -> sample: pixels from jpeg and png, arrays in C order and native byte order.
//
// A Decoder belongs to one thread at a time; it keeps codec handles and scratch between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "formats/format.h"

namespace forebay::ops {

class Allowance;

struct DecodeOptions {
  bool apply_orientation = true;  // EXIF orientation (and PNG's eXIf)
  bool convert_to_rgb = false;    // grey, CMYK and palette become 3 channels
  bool keep_16_bit = false;       // else 16-bit PNG samples become their high byte
  bool fast_dct = false;
  uint64_t pixels_max = 1ull << 30;     // a larger image is refused before anything is allocated
  std::shared_ptr<Allowance> memory{};  // of runners that work at the same time; null = no limit
};

struct Sample {
  formats::ElementType type = formats::ElementType::kU8;
  std::vector<uint64_t> shape;       // images: height, width, channels
  std::span<const std::byte> bytes;  // C order, native byte order; valid until the next decode()
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Bytes that decode() will produce, from headers alone.
  virtual Result<uint64_t> decoded_bytes(std::string_view path, const formats::Record& record) = 0;

  // That it takes besides, and keeps.
  virtual Result<uint64_t> scratch_bytes(const formats::Record& record) = 0;

  // Into `destination` when it is large enough (decoded_bytes), else into the decoder's own
  // scratch. A record that needs no conversion is passed through without a copy when `destination`
  // is empty. Errors name `path` and the cause ("truncated at byte N", "not an image: text/html").
  virtual Result<Sample> decode(std::string_view path, const formats::Record& record,
                                std::span<std::byte> destination) = 0;
};

std::unique_ptr<Decoder> make_decoder(DecodeOptions options);

}  // namespace forebay::ops
