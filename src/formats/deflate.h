// Compresses a stream in pieces with ISA-L's fast level: raw deflate (zip) or gzip.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "forebay/result.h"
#include "formats/inflate.h"

namespace forebay::formats {

// Receives compressed bytes, which are valid during the call only.
using ByteSink = std::function<Status(std::span<const std::byte>)>;

class Deflater {
 public:
  // kNone or kGzip.
  explicit Deflater(DeflateWrapper wrapper);
  ~Deflater();

  // `is_last` ends the stream; `bytes` may then be empty.
  Status run(std::span<const std::byte> bytes, bool is_last, const ByteSink& sink);

  // No input of `bytes` bytes compresses to more than this.
  static uint64_t bytes_max(uint64_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::formats
