#include "formats/deflate.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace forebay::formats {
namespace {

constexpr size_t kPieceBytesMax = size_t{1} << 30;  // ISA-L counts in 32 bits
constexpr size_t kOutputBytes = 256 * 1024;

}  // namespace

struct Deflater::State {
  isal_zstream stream;
  std::array<uint8_t, ISAL_DEF_LVL1_DEFAULT> level_buffer;
  std::array<std::byte, kOutputBytes> output;
};

Deflater::Deflater(DeflateWrapper wrapper) : state_(new State) {
  isal_zstream& stream = state_->stream;
  isal_deflate_init(&stream);
  stream.level = 1;
  stream.level_buf = state_->level_buffer.data();
  stream.level_buf_size = static_cast<uint32_t>(state_->level_buffer.size());
  stream.gzip_flag = wrapper == DeflateWrapper::kGzip ? IGZIP_GZIP : IGZIP_DEFLATE;
  stream.end_of_stream = 0;
  stream.flush = NO_FLUSH;
}

Deflater::~Deflater() = default;

Status Deflater::run(std::span<const std::byte> bytes, bool is_last, const ByteSink& sink) {
  isal_zstream& stream = state_->stream;
  for (;;) {
    const size_t piece = std::min(bytes.size(), kPieceBytesMax);
    stream.next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(bytes.data()));
    stream.avail_in = static_cast<uint32_t>(piece);
    stream.end_of_stream = is_last && piece == bytes.size() ? 1 : 0;
    do {
      stream.next_out = reinterpret_cast<uint8_t*>(state_->output.data());
      stream.avail_out = static_cast<uint32_t>(kOutputBytes);
      FB_CHECK(isal_deflate(&stream) == COMP_OK);
      const size_t made = kOutputBytes - stream.avail_out;
      if (made > 0) FB_TRY(sink({state_->output.data(), made}));
    } while (stream.avail_out == 0);
    bytes = bytes.subspan(piece);
    if (bytes.empty()) return {};
  }
}

// Level 1 falls back to stored blocks, a header of a few bytes for each block of its token buffer.
uint64_t Deflater::bytes_max(uint64_t bytes) {
  return bytes + bytes / 16 + 4096;
}

}  // namespace forebay::formats
