// Deflate streams in pieces: raw (zip), gzip and zlib, with their checksums checked.
//
// One thread at a time; reuse one object, it holds about 100 KiB.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "forebay/result.h"

namespace forebay::formats {

enum class DeflateWrapper { kNone, kGzip, kZlib };

class Inflater {
 public:
  Inflater();
  ~Inflater();

  // Ready for another stream.
  void begin(DeflateWrapper wrapper);

  // Takes bytes off the front of `input` and fills the front of `output`, advancing both, until one
  // of them is empty or the stream ends. kCorruption without a file name when the stream is
  // invalid.
  Status run(std::span<const std::byte>& input, std::span<std::byte>& output);

  // The stream has ended. What lies behind it: unread(), then what is left of the input.
  bool is_done() const;

  // Bytes of earlier inputs that were taken but lie behind the end of the stream; at most 8.
  std::span<const std::byte> unread() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::formats
