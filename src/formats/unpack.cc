#include "formats/unpack.h"

#include <bzlib.h>
#include <lzma.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/crc.h"
#include "base/error.h"
#include "formats/content_kind.h"
#include "formats/tfrecord_stream.h"
#include "formats/zip.h"

namespace forebay::formats {
namespace {

constexpr uint64_t kWindowBytes = 256 * 1024;
constexpr uint64_t kXzMemoryMax = uint64_t{128} << 20;  // every preset of xz needs less

using Sink = std::function<Status(std::span<const std::byte>)>;

// Calls `take` with the bytes [offset, offset + length) of `source`, window by window.
Status each_window(ByteSource& source, uint64_t offset, uint64_t length, const Sink& take) {
  for (uint64_t done = 0; done < length;) {
    const uint64_t n = std::min(kWindowBytes, length - done);
    const auto window = FB_TRY(source.at(offset + done, n));
    FB_TRY(take(window));
    done += n;
  }
  return {};
}

class Bzip2 {
 public:
  ~Bzip2() { close(); }

  Status append(std::span<const std::byte> bytes, const Sink& sink) {
    stream_.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));
    stream_.avail_in = static_cast<unsigned>(bytes.size());
    do {
      if (!is_open_) {
        if (stream_.avail_in == 0) break;  // the end of a stream, and no other follows
        FB_TRY(open());
      }
      stream_.next_out = reinterpret_cast<char*>(out_.data());
      stream_.avail_out = static_cast<unsigned>(out_.size());
      const int code = BZ2_bzDecompress(&stream_);
      if (code != BZ_OK && code != BZ_STREAM_END)
        return fail(ErrorCode::kCorruption, "bzip2 stream: {}", reason(code));
      const size_t made = out_.size() - stream_.avail_out;
      if (made > 0) FB_TRY(sink({out_.data(), made}));
      if (code == BZ_STREAM_END) close();
    } while (stream_.avail_in > 0 || (is_open_ && stream_.avail_out == 0));
    return {};
  }
  bool has_ended() const { return !is_open_; }

 private:
  Status open() {
    const bz_stream rest = stream_;
    stream_ = {};
    if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK)
      return fail(ErrorCode::kResourceExhausted, "no memory for a bzip2 stream");
    stream_.next_in = rest.next_in;
    stream_.avail_in = rest.avail_in;
    is_open_ = true;
    return {};
  }
  void close() {
    if (is_open_) BZ2_bzDecompressEnd(&stream_);
    is_open_ = false;
  }
  static std::string_view reason(int code) {
    if (code == BZ_DATA_ERROR_MAGIC) return "something else follows or precedes it";
    if (code == BZ_MEM_ERROR) return "no memory";
    return "damaged, or its checksum does not match";
  }

  bz_stream stream_{};
  bool is_open_ = false;
  std::vector<std::byte> out_ = std::vector<std::byte>(kWindowBytes);
};

Status unpack_bzip2(ByteSource& source, const Sink& sink) {
  Bzip2 stream;
  FB_TRY(each_window(source, 0, source.size(),
                     [&](std::span<const std::byte> bytes) { return stream.append(bytes, sink); }));
  if (stream.has_ended()) return {};
  return fail(ErrorCode::kCorruption, "truncated at byte {}: its bzip2 stream has no end",
              source.size());
}

Error xz_error(lzma_ret code) {
  if (code == LZMA_MEMLIMIT_ERROR)
    return fail(ErrorCode::kUnsupported, "xz stream: needs more than {} bytes of memory",
                kXzMemoryMax);
  if (code == LZMA_MEM_ERROR) return fail(ErrorCode::kResourceExhausted, "xz stream: no memory");
  if (code == LZMA_OPTIONS_ERROR)
    return fail(ErrorCode::kUnsupported, "xz stream: an unknown filter or check");
  return fail(ErrorCode::kCorruption, "xz stream: damaged, or its checksum does not match");
}

class Xz {
 public:
  Xz() : opened_(lzma_stream_decoder(&stream_, kXzMemoryMax, LZMA_CONCATENATED)) {}
  ~Xz() { lzma_end(&stream_); }

  // Empty bytes: the end of the file.
  Status append(std::span<const std::byte> bytes, const Sink& sink) {
    if (opened_ != LZMA_OK) return xz_error(opened_);
    stream_.next_in = reinterpret_cast<const uint8_t*>(bytes.data());
    stream_.avail_in = bytes.size();
    do {
      stream_.next_out = reinterpret_cast<uint8_t*>(out_.data());
      stream_.avail_out = out_.size();
      const lzma_ret code = lzma_code(&stream_, bytes.empty() ? LZMA_FINISH : LZMA_RUN);
      const size_t made = out_.size() - stream_.avail_out;
      if (made > 0) FB_TRY(sink({out_.data(), made}));
      has_ended_ = code == LZMA_STREAM_END;
      if (has_ended_ || code == LZMA_BUF_ERROR) break;
      if (code != LZMA_OK) return xz_error(code);
    } while (stream_.avail_in > 0 || stream_.avail_out == 0);
    return {};
  }
  bool has_ended() const { return has_ended_; }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  lzma_ret opened_;
  bool has_ended_ = false;
  std::vector<std::byte> out_ = std::vector<std::byte>(kWindowBytes);
};

Status unpack_xz(ByteSource& source, const Sink& sink) {
  Xz stream;
  FB_TRY(each_window(source, 0, source.size(),
                     [&](std::span<const std::byte> bytes) { return stream.append(bytes, sink); }));
  FB_TRY(stream.append({}, sink));
  if (stream.has_ended()) return {};
  return fail(ErrorCode::kCorruption, "truncated at byte {}: its xz stream has no end",
              source.size());
}

Status unpack_gzip(ByteSource& source, const Sink& sink) {
  InflatedStream stream;
  FB_TRY(each_window(source, 0, source.size(),
                     [&](std::span<const std::byte> bytes) { return stream.append(bytes, sink); }));
  return stream.finish();
}

// Deflated bytes of one member, until its stream ends.
class RawDeflate {
 public:
  Status append(std::span<const std::byte> bytes, const Sink& sink) {
    for (bool is_full = true; !inflater_.is_done() && (is_full || !bytes.empty());) {
      std::span<std::byte> room(out_);
      FB_TRY(inflater_.run(bytes, room));
      const size_t made = out_.size() - room.size();
      is_full = room.empty();
      if (made > 0) FB_TRY(sink({out_.data(), made}));
    }
    has_more_ = has_more_ || !bytes.empty();
    return {};
  }
  bool has_ended() const { return inflater_.is_done() && !has_more_ && inflater_.unread().empty(); }

 private:
  Inflater inflater_;
  bool has_more_ = false;  // bytes follow the end of the stream
  std::vector<std::byte> out_ = std::vector<std::byte>(kWindowBytes);
};

Status unpack_member(ByteSource& source, const ZipMember& member, const Sink& sink) {
  const uint64_t offset = FB_TRY(locate_zip_member(source, member));
  uint32_t crc = 0;
  uint64_t bytes = 0;
  const Sink counted = [&](std::span<const std::byte> piece) -> Status {
    crc = base::crc32(crc, piece);
    bytes += piece.size();
    if (bytes > member.bytes)
      return fail(ErrorCode::kCorruption, "member {}: inflates to more than its {} bytes",
                  member.name, member.bytes);
    return sink(piece);
  };
  if (member.method == kZipStored) {
    FB_TRY(each_window(source, offset, member.compressed_bytes, counted));
  } else {
    RawDeflate stream;
    FB_TRY(each_window(
        source, offset, member.compressed_bytes,
        [&](std::span<const std::byte> piece) { return stream.append(piece, counted); }));
    if (!stream.has_ended())
      return fail(ErrorCode::kCorruption, "member {}: its deflate stream does not end with it",
                  member.name);
  }
  if (bytes != member.bytes)
    return fail(ErrorCode::kCorruption, "member {}: inflates to {} bytes, not {}", member.name,
                bytes, member.bytes);
  return crc == member.crc ? Status() : Status(zip_crc_error(member, crc));
}

Status unpack_zip(ByteSource& source, const Sink& sink) {
  const ZipDirectory directory = FB_TRY(read_zip_directory(source));
  if (directory.members.size() != 1)
    return fail(ErrorCode::kUnsupported, "a zip archive of {} members; one is expected",
                directory.members.size());
  return unpack_member(source, directory.members[0], sink);
}

}  // namespace

Compression packing_of(std::span<const std::byte> head) {
  const std::string_view kind = content_kind(head);
  if (kind == "gzip data") return Compression::kGzip;
  if (kind == "bzip2 data") return Compression::kBz2;
  if (kind == "xz data") return Compression::kXz;
  if (kind == "zip archive" || kind == "empty zip archive") return Compression::kZip;
  return Compression::kNone;
}

Status unpack(ByteSource& source, Compression packing, const Sink& sink) {
  uint64_t bytes = 0;
  const Sink limited = [&](std::span<const std::byte> piece) -> Status {
    bytes += piece.size();
    if (bytes > kInflatedBytesMax)
      return fail(ErrorCode::kUnsupported, "unpacks to more than the limit of {} bytes",
                  kInflatedBytesMax);
    return sink(piece);
  };
  switch (packing) {
    case Compression::kGzip:
      return unpack_gzip(source, limited);
    case Compression::kBz2:
      return unpack_bzip2(source, limited);
    case Compression::kXz:
      return unpack_xz(source, limited);
    case Compression::kZip:
      return unpack_zip(source, limited);
    case Compression::kNone:
    case Compression::kLzf:
      break;
  }
  return fail(ErrorCode::kUnsupported, "{} is no compression of whole files",
              compression_name(packing));
}

}  // namespace forebay::formats
