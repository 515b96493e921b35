#include "dataset/generation_writer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace forebay::dataset {
namespace {

// Bytes handed on at once, so that a stop is seen between pieces of a huge append.
constexpr size_t kPieceBytes = size_t{16} << 20;

Error stopped() {
  return Error{ErrorCode::kCancelled, "stopped"};
}

}  // namespace

GenerationWriter::GenerationWriter(storage::Writer& inner, std::atomic<uint64_t>& bytes_written,
                                   uint64_t sync_bytes, std::stop_token stop)
    : inner_(inner),
      bytes_written_(bytes_written),
      sync_bytes_(sync_bytes),
      stop_(std::move(stop)) {}

Status GenerationWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (stop_.stop_requested()) return stopped();
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    FB_TRY(inner_.append(piece));
    bytes_ += piece.size();
    bytes_unsynced_ += piece.size();
    bytes_written_.fetch_add(piece.size(), std::memory_order_relaxed);  // for display only
    if (sync_bytes_ > 0 && bytes_unsynced_ >= sync_bytes_) FB_TRY(sync());
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

Status GenerationWriter::patch(uint64_t offset, std::span<const std::byte> bytes) {
  if (stop_.stop_requested()) return stopped();
  return inner_.patch(offset, bytes);
}

Status GenerationWriter::sync() {
  bytes_unsynced_ = 0;
  return inner_.sync();
}

Status GenerationWriter::publish() {
  return inner_.publish();
}

Status CountingWriter::append(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  return {};
}

Status CountingWriter::patch(uint64_t offset, std::span<const std::byte> bytes) {
  if (offset > bytes_ || bytes.size() > bytes_ - offset)
    return fail(ErrorCode::kInvalidArgument, "patch of bytes {} to {} of {}", offset,
                offset + bytes.size(), bytes_);
  return {};
}

}  // namespace forebay::dataset
