#include "formats/payload.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "formats/little_endian.h"

namespace forebay::formats {
namespace {

constexpr size_t kPieceBytes = 128 * 1024;  // fill, checksum and copy find it in the L2 cache

// Clears the highest exponent bit, so that every float is finite; leaves integers alone.
uint64_t mask_of(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return 0x0101010101010101u;
    case ElementType::kF16:
      return 0xbfffbfffbfffbfffu;
    case ElementType::kF32:
    case ElementType::kC64:
      return 0xbfffffffbfffffffu;
    case ElementType::kF64:
    case ElementType::kC128:
      return 0xbfffffffffffffffu;
    default:
      return ~uint64_t{0};
  }
}

}  // namespace

std::vector<uint64_t> record_shape(const FileSpec& spec) {
  if (!spec.shape.empty()) return spec.shape;
  return {spec.rows, spec.columns};
}

uint64_t record_bytes(const FileSpec& spec) {
  const auto bytes = array_bytes({.type = spec.type, .shape = record_shape(spec)});
  return bytes.ok() ? *bytes : UINT64_MAX;
}

uint64_t payload_bytes(const FileSpec& spec) {
  auto shape = record_shape(spec);
  shape.push_back(spec.sample_count);
  const auto bytes = array_bytes({.type = spec.type, .shape = std::move(shape)});
  return bytes.ok() ? *bytes : UINT64_MAX;
}

Status check_spec(const FileSpec& spec) {
  if (spec.sample_count == 0)
    return fail(ErrorCode::kInvalidArgument, "{}: a file of 0 samples", spec.path);
  const uint64_t bytes = payload_bytes(spec);
  if (bytes == UINT64_MAX)
    return fail(ErrorCode::kInvalidArgument, "{}: more than 2^62 bytes", spec.path);
  if (bytes == 0) return fail(ErrorCode::kInvalidArgument, "{}: records of 0 bytes", spec.path);
  if (spec.type == ElementType::kBF16)
    return fail(ErrorCode::kUnsupported, "{}: files hold no bfloat16; uint16 has the same bytes",
                spec.path);
  return {};
}

Payload::Payload(const FileSpec& spec)
    : random_(spec.seed), mask_(mask_of(spec.type)), buffer_(kPieceBytes) {}

void Payload::constrain(std::span<std::byte> piece) const {
  if (mask_ == ~uint64_t{0}) return;
  size_t i = 0;
  for (; i + 8 <= piece.size(); i += 8)
    store_le<uint64_t>(&piece[i], load_le<uint64_t>(&piece[i]) & mask_);
  for (; i < piece.size(); ++i) piece[i] &= std::byte(mask_ >> (8 * (i % 8)));
}

Status Payload::produce(uint64_t bytes, const ByteSink& sink) {
  while (bytes > 0) {
    const size_t n = std::min<uint64_t>(bytes, buffer_.size());
    const std::span<std::byte> piece(buffer_.data(), n);
    random_.fill(piece);
    constrain(piece);
    FB_TRY(sink(piece));
    bytes -= n;
  }
  return {};
}

}  // namespace forebay::formats
