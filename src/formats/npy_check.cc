#include "formats/npy_check.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace forebay::formats {

void NpyHeaderCollector::begin() {
  head_.clear();
  head_bytes_ = kNpyPreambleBytes;
  is_complete_ = false;
  bytes_seen_ = 0;
}

void NpyHeaderCollector::visit(std::span<const std::byte> piece) {
  bytes_seen_ += piece.size();
  while (!is_complete_ && !piece.empty()) {
    const size_t n = std::min<uint64_t>(piece.size(), head_bytes_ - head_.size());
    head_.insert(head_.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(n));
    piece = piece.subspan(n);
    if (head_.size() < head_bytes_) return;
    const auto offset = npy_data_offset(head_);
    // An error is final; it shows again in finish().
    is_complete_ = !offset.ok() || *offset <= head_.size();
    if (!is_complete_) head_bytes_ = *offset;
  }
}

Result<NpyHeader> NpyHeaderCollector::finish() const {
  NpyHeader header = FB_TRY(parse_npy_header(head_));
  const uint64_t got = bytes_seen_ - header.data_offset;
  if (got < header.data_bytes)
    return fail(ErrorCode::kCorruption,
                "truncated at byte {}: the array needs {} bytes, {} are there", bytes_seen_,
                header.data_bytes, got);
  if (got > header.data_bytes)
    return fail(ErrorCode::kCorruption, "{} bytes follow the array, which ends at byte {}",
                got - header.data_bytes, header.data_offset + header.data_bytes);
  return header;
}

namespace {

class NpyCheck : public StreamCheck {
 public:
  void begin(std::string_view path, uint64_t file_bytes) override {
    path_ = path;
    file_bytes_ = file_bytes;
    bytes_seen_ = 0;
    payload_bytes_ = 0;
    collector_.begin();
  }
  void visit(std::span<const std::byte> piece) override {
    bytes_seen_ += piece.size();
    collector_.visit(piece);
  }
  Status finish() override { return judge().context(path_); }
  uint64_t payload_bytes() const override { return payload_bytes_; }

 private:
  Status judge() {
    if (bytes_seen_ != file_bytes_)
      return fail(ErrorCode::kCorruption, "truncated at byte {} of {}", bytes_seen_, file_bytes_);
    if (bytes_seen_ == 0) return fail(ErrorCode::kCorruption, "empty file");
    const NpyHeader header = FB_TRY(collector_.finish());
    payload_bytes_ = header.data_bytes;
    return {};
  }

  std::string path_;
  uint64_t file_bytes_ = 0;
  uint64_t bytes_seen_ = 0;
  uint64_t payload_bytes_ = 0;
  NpyHeaderCollector collector_;
};

}  // namespace

std::unique_ptr<StreamCheck> make_npy_check() {
  return std::make_unique<NpyCheck>();
}

}  // namespace forebay::formats
