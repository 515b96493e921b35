// What a checkpoint consists of: a file that is taken holds what it says, and is written as it was.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/crc.h"
#include "checkpoint/manifest.h"
#include "checkpoint/pieces.h"
#include "checkpoint/safetensors.h"
#include "targets.h"

namespace forebay::fuzz {

using namespace checkpoint;  // NOLINT(google-build-using-namespace): all of this file is about it

// Bytes of a whole file: the header's length, the header, data.
void fuzz_safetensors(std::span<const std::byte> bytes) {
  const auto length =
      read_header_length(bytes.first(std::min(bytes.size(), kLengthBytes)), bytes.size());
  if (!length.ok()) return;
  FB_CHECK(*length <= bytes.size() - kLengthBytes);
  const auto rest = bytes.subspan(kLengthBytes);
  const std::string_view json(reinterpret_cast<const char*>(rest.data()), *length);
  const auto header = parse_safetensors(json, bytes.size());
  if (!header.ok()) return FB_CHECK(!header.error().message.empty());
  uint64_t end = 0;
  for (const TensorEntry& tensor : header->tensors) {
    const auto size = tensor_bytes(tensor.type, tensor.shape);
    FB_CHECK(size.ok() && *size == tensor.bytes && tensor.offset == end);
    end += tensor.bytes;
  }
  FB_CHECK(end == rest.size() - *length);
  const auto again = make_safetensors_header(*header, 8);
  FB_CHECK(again.ok());
  const std::string_view text = std::string_view(*again).substr(kLengthBytes);
  const auto second = parse_safetensors(text, again->size() + end);
  FB_CHECK(second.ok() && second->tensors.size() == header->tensors.size());
  FB_CHECK(second->metadata == header->metadata);
}

// Checksums would stop every change that a fuzzer makes: the digits are put right first.
void fuzz_manifest(std::span<const std::byte> bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  parse_manifest(text).ok();
  seal_manifest(text);
  for (const Coverage coverage : {Coverage::kWhole, Coverage::kPart}) {
    const auto manifest = parse_manifest(text, coverage);
    if (!manifest.ok()) {
      FB_CHECK(!manifest.error().message.empty());
      continue;
    }
    for (const SavedTensor& tensor : manifest->tensors) {
      FB_CHECK(coverage == Coverage::kPart || check_pieces(tensor).ok());
      for (const Piece& piece : tensor.pieces) {
        const auto size = tensor_bytes(tensor.type, piece.shape);
        const uint64_t end = manifest->shards[piece.shard].bytes;
        FB_CHECK(size.ok() && piece.offset <= end && *size <= end - piece.offset);
      }
    }
    const std::string written = write_manifest(*manifest);
    const auto again = parse_manifest(written, coverage);
    FB_CHECK(again.ok() && write_manifest(*again) == written);
  }
}

}  // namespace forebay::fuzz
