#include "formats/tfrecord_stream.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "formats/content_kind.h"

namespace forebay::formats {

constexpr std::byte kGzipByte{0x1f};  // the first of a member

InflatedStream::InflatedStream() : piece_(256 * 1024) {}

Status InflatedStream::append(std::span<const std::byte> bytes, const Sink& sink) {
  bytes_seen_ += bytes.size();
  while (!bytes.empty()) {
    if (!has_begun_ || inflater_.is_done()) {
      if (has_begun_ && wrapper_ == DeflateWrapper::kZlib)
        return fail(ErrorCode::kCorruption, "{} bytes follow the zlib stream", bytes.size());
      if (!has_begun_)
        wrapper_ =
            is_gzip(bytes) || bytes[0] == kGzipByte ? DeflateWrapper::kGzip : DeflateWrapper::kZlib;
      // A few bytes of the next member may have been read with the end of the last.
      const auto unread = inflater_.unread();
      std::array<std::byte, 8> first;
      std::copy(unread.begin(), unread.end(), first.begin());
      std::span<const std::byte> start(first.data(), unread.size());
      if (has_begun_ && (start.empty() ? bytes : start)[0] != kGzipByte) return junk_error();
      inflater_.begin(wrapper_);
      has_begun_ = true;
      if (!start.empty()) FB_TRY(drain(start, sink));
    }
    FB_TRY(drain(bytes, sink));
  }
  return {};
}

// Runs until the input is taken and no output waits inside, or the member ends.
Status InflatedStream::drain(std::span<const std::byte>& bytes, const Sink& sink) {
  while (!inflater_.is_done()) {
    const size_t before = bytes.size();
    std::span<std::byte> room(piece_);
    FB_TRY(inflater_.run(bytes, room));
    const size_t made = piece_.size() - room.size();
    if (made > 0) FB_TRY(sink({piece_.data(), made}));
    if (made == 0 && bytes.size() == before) break;
  }
  return {};
}

Error InflatedStream::junk_error() const {
  return fail(ErrorCode::kCorruption, "something else follows its gzip stream");
}

Status InflatedStream::finish() const {
  const auto unread = inflater_.unread();
  const bool is_followed = has_begun_ && inflater_.is_done() && !unread.empty();
  if (is_followed && wrapper_ == DeflateWrapper::kGzip && unread[0] != kGzipByte)
    return junk_error();
  if (has_begun_ && inflater_.is_done() && inflater_.unread().empty()) return {};
  return fail(ErrorCode::kCorruption, "truncated at byte {}: its {} stream has no end", bytes_seen_,
              wrapper_ == DeflateWrapper::kGzip ? "gzip" : "zlib");
}

Result<std::vector<std::byte>> inflate_tfrecord(std::span<const std::byte> bytes) {
  std::vector<std::byte> plain;
  InflatedStream stream;
  FB_TRY(stream.append(bytes, [&](std::span<const std::byte> piece) -> Status {
    if (plain.size() + piece.size() > kInflatedBytesMax)
      return fail(ErrorCode::kUnsupported, "inflates to more than the limit of {} bytes",
                  kInflatedBytesMax);
    plain.insert(plain.end(), piece.begin(), piece.end());
    return {};
  }));
  FB_TRY(stream.finish());
  return plain;
}

}  // namespace forebay::formats
