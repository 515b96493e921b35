#include "formats/byte_source.h"

#include "base/error.h"

namespace forebay::formats {

Result<std::span<const std::byte>> SpanSource::at(uint64_t offset, uint64_t length) {
  if (offset > size() || length > size() - offset)
    return fail(ErrorCode::kCorruption, "truncated at byte {}", size());
  if (offset < first_offset_)
    return fail(ErrorCode::kUnsupported, "byte {} is not at hand any more", offset);
  return bytes_.subspan(offset - first_offset_, length);
}

Result<std::span<const std::byte>> StoreSource::at(uint64_t offset, uint64_t length) {
  if (offset > size_ || length > size_ - offset)
    return fail(ErrorCode::kCorruption, "truncated at byte {}", size_);
  scratch_.resize(length);
  if (file_ == nullptr) file_ = FB_TRY(store_.open_file(path_));
  const size_t got = FB_TRY(file_->read_at(offset, scratch_));
  if (got != length)
    return fail(ErrorCode::kCorruption, "truncated at byte {}; it had {} bytes when listed",
                offset + got, size_);
  return std::span<const std::byte>(scratch_);
}

}  // namespace forebay::formats
