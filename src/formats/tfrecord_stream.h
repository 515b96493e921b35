// Compressed TFRecord files: the framing lies inside one gzip or zlib stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "forebay/result.h"
#include "formats/inflate.h"

namespace forebay::formats {

// Hands out a gzip file (of one or more members) or a zlib stream in pieces. One thread at a time.
class InflatedStream {
 public:
  using Sink = std::function<Status(std::span<const std::byte>)>;

  InflatedStream();
  // More compressed bytes; the first call decides between gzip and zlib.
  Status append(std::span<const std::byte> bytes, const Sink& sink);
  // kCorruption when the stream has not ended.
  Status finish() const;

 private:
  // What lies after a gzip stream and does not begin another.
  Error junk_error() const;
  Status drain(std::span<const std::byte>& bytes, const Sink& sink);

  Inflater inflater_;
  DeflateWrapper wrapper_ = DeflateWrapper::kNone;
  bool has_begun_ = false;
  uint64_t bytes_seen_ = 0;
  std::vector<std::byte> piece_;
};

// More than this is refused.
constexpr uint64_t kInflatedBytesMax = uint64_t{64} << 30;

// The whole stream; memory grows only with what really comes out.
Result<std::vector<std::byte>> inflate_tfrecord(std::span<const std::byte> bytes);

}  // namespace forebay::formats
