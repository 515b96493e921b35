#include "formats/inflate.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"

namespace forebay::formats {
namespace {

// ISA-L counts in 32 bits; pieces stay below that.
constexpr size_t kPieceBytesMax = size_t{1} << 30;

std::string reason(int code) {
  switch (code) {
    case ISAL_INVALID_BLOCK:
      return "invalid block";
    case ISAL_INVALID_SYMBOL:
      return "invalid symbol";
    case ISAL_INVALID_LOOKBACK:
      return "a copy from before its start";
    case ISAL_INVALID_WRAPPER:
      return "invalid gzip or zlib header";
    case ISAL_UNSUPPORTED_METHOD:
      return "unknown method in the gzip or zlib header";
    case ISAL_INCORRECT_CHECKSUM:
      return "checksum does not match";
    case ISAL_NEED_DICT:
      return "a preset dictionary is needed";
    default:
      return fmt::format("igzip error {}", code);
  }
}

}  // namespace

struct Inflater::State {
  inflate_state stream;
  std::array<std::byte, 8> unread;
  size_t unread_bytes = 0;

  // ISA-L reads up to eight bytes ahead and keeps them. Those of the latest input go back to it.
  void give_back(std::span<const std::byte>& input, size_t used) {
    const auto ahead = static_cast<size_t>(stream.read_in_length) / 8;
    const uint64_t bits = stream.read_in >> (stream.read_in_length % 8);
    const size_t back = std::min(ahead, used);
    input = {input.data() - back, input.size() + back};
    unread_bytes = ahead - back;
    std::memcpy(unread.data(), &bits, sizeof bits);
    stream.read_in_length = 0;
  }
};

Inflater::Inflater() : state_(new State) {
  begin(DeflateWrapper::kNone);
}
Inflater::~Inflater() = default;

void Inflater::begin(DeflateWrapper wrapper) {
  isal_inflate_init(&state_->stream);
  state_->unread_bytes = 0;
  state_->stream.crc_flag = wrapper == DeflateWrapper::kGzip   ? ISAL_GZIP
                            : wrapper == DeflateWrapper::kZlib ? ISAL_ZLIB
                                                               : ISAL_DEFLATE;
}

Status Inflater::run(std::span<const std::byte>& input, std::span<std::byte>& output) {
  inflate_state& stream = state_->stream;
  size_t total_in = 0;
  while (!is_done()) {
    const size_t in = std::min(input.size(), kPieceBytesMax);
    const size_t out = std::min(output.size(), kPieceBytesMax);
    auto* next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(input.data()));
    stream.next_in = next_in;
    stream.avail_in = static_cast<uint32_t>(in);
    stream.next_out = reinterpret_cast<uint8_t*>(output.data());
    stream.avail_out = static_cast<uint32_t>(out);
    const int code = isal_inflate(&stream);
    if (code < 0 || code == ISAL_NEED_DICT)
      return fail(ErrorCode::kCorruption, "deflate stream: {}", reason(code));
    const size_t used_in = in - stream.avail_in;
    const size_t used_out = out - stream.avail_out;
    input = input.subspan(used_in);
    output = output.subspan(used_out);
    total_in += used_in;
    if (is_done()) state_->give_back(input, total_in);
    if (used_in == 0 && used_out == 0) break;  // waits for input or room
  }
  return {};
}

std::span<const std::byte> Inflater::unread() const {
  return std::span(state_->unread).first(state_->unread_bytes);
}

bool Inflater::is_done() const {
  return state_->stream.block_state == ISAL_BLOCK_FINISH;
}

}  // namespace forebay::formats
