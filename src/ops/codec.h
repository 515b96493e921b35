// Decoders of one encoding each; decode.cc chooses among them.
//
// One thread at a time. They allocate once and reuse: handles, and scratch that grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "formats/byte_buffer.h"
#include "ops/decode.h"

namespace forebay::ops {

// Messages do not name the file; decode.cc puts its path in front.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual Result<uint64_t> decoded_bytes(const formats::Record& record) = 0;
  // Beside the result; of large ones only.
  virtual Result<uint64_t> scratch_bytes(const formats::Record& /*record*/) { return uint64_t{0}; }
  virtual Result<Sample> decode(const formats::Record& record,
                                std::span<std::byte> destination) = 0;
};

std::unique_ptr<Codec> make_jpeg_codec(const DecodeOptions& options);
std::unique_ptr<Codec> make_png_codec(const DecodeOptions& options);
std::unique_ptr<Codec> make_array_codec();

// `destination` when it is large enough, else scratch.
inline std::span<std::byte> choose_output(std::span<std::byte> destination, uint64_t bytes,
                                          formats::ByteBuffer& scratch) {
  return destination.size() >= bytes ? destination.first(bytes) : scratch.reserve(bytes);
}

// Refuses an image before anything is allocated for it.
Status check_pixels(uint64_t width, uint64_t height, const DecodeOptions& options);

}  // namespace forebay::ops
