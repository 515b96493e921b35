#include "formats/tfrecord_check.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "formats/content_kind.h"
#include "formats/tfrecord_frame.h"

namespace forebay::formats {
namespace {

class TfrecordCheck : public StreamCheck {
 public:
  void begin(std::string_view path, uint64_t file_bytes) override {
    path_ = path;
    file_bytes_ = file_bytes;
    at_ = record_offset_ = record_ = left_ = held_ = payload_bytes_ = 0;
    state_ = State::kHeader;
    verdict_ = Status();
  }

  void visit(std::span<const std::byte> piece) override {
    while (!piece.empty()) {
      size_t used = piece.size();
      if (state_ == State::kData) {
        used = std::min<uint64_t>(used, left_);
        crc_ = base::crc32c(crc_, piece.first(used));
        left_ -= used;
        if (left_ == 0) state_ = State::kTrailer;
      } else if (state_ != State::kEnded) {
        used = hold(piece);
      }
      at_ += used;
      piece = piece.subspan(used);
    }
  }

  Status finish() override { return judge().context(path_); }
  uint64_t payload_bytes() const override { return payload_bytes_; }

 private:
  enum class State { kHeader, kData, kTrailer, kEnded };

  size_t hold(std::span<const std::byte> piece) {
    const size_t wanted = state_ == State::kHeader ? kFrameHeaderBytes : kFrameTrailerBytes;
    const size_t n = std::min(piece.size(), wanted - held_);
    std::copy_n(piece.begin(), n, buffer_.begin() + static_cast<ptrdiff_t>(held_));
    held_ += n;
    if (held_ < wanted) return n;
    held_ = 0;
    if (state_ == State::kHeader)
      on_header();
    else
      on_trailer(at_ + n);
    return n;
  }

  void on_header() {
    const FrameHeader header = parse_frame_header(buffer_);
    if (!header.ok()) {
      if (record_ == 0 && (is_gzip(buffer_) || is_zlib(buffer_)))
        return end(fail(ErrorCode::kUnsupported, "compressed files are not checked in passing"));
      if (record_ == 0 && is_version_line())
        return end(fail(ErrorCode::kCorruption,
                        "a git-lfs pointer, not the data; fetch it with 'git lfs pull'"));
      return end(fail(ErrorCode::kCorruption,
                      "record {} at byte {}: length CRC {:#010x}, expected {:#010x}; the rest of "
                      "the file is unreachable",
                      record_, record_offset_, header.crc, header.expected));
    }
    crc_ = 0;
    left_ = header.length;
    payload_bytes_ += std::min(header.length, file_bytes_);
    state_ = left_ == 0 ? State::kTrailer : State::kData;
  }

  bool is_version_line() const {
    return std::string_view(reinterpret_cast<const char*>(buffer_.data()), 12) == "version http";
  }

  void on_trailer(uint64_t next) {
    const uint32_t stored = load_le<uint32_t>(buffer_.data());
    if (const uint32_t crc = mask_crc(crc_); crc != stored)
      return end(fail(ErrorCode::kCorruption,
                      "record {} at byte {}: data CRC {:#010x}, expected {:#010x}", record_,
                      record_offset_, crc, stored));
    ++record_;
    record_offset_ = next;
    state_ = State::kHeader;
  }

  void end(Error error) {
    verdict_ = std::move(error);
    state_ = State::kEnded;
  }

  Status judge() {
    if (at_ != file_bytes_)
      return fail(ErrorCode::kCorruption, "truncated at byte {} of {}", at_, file_bytes_);
    if (at_ == 0) return fail(ErrorCode::kCorruption, "empty file");
    if (!verdict_.ok()) return verdict_;
    if (state_ != State::kHeader || held_ > 0)
      return fail(ErrorCode::kCorruption, "record {} at byte {}: truncated at byte {}", record_,
                  record_offset_, at_);
    return {};
  }

  std::string path_;
  uint64_t file_bytes_ = 0;
  uint64_t at_ = 0;
  uint64_t record_ = 0;
  uint64_t record_offset_ = 0;
  State state_ = State::kHeader;
  uint64_t left_ = 0;  // of the data
  uint64_t held_ = 0;  // bytes of buffer_ that are filled
  std::array<std::byte, kFrameHeaderBytes> buffer_{};
  uint32_t crc_ = 0;
  uint64_t payload_bytes_ = 0;
  Status verdict_;
};

}  // namespace

std::unique_ptr<StreamCheck> make_tfrecord_check() {
  return std::make_unique<TfrecordCheck>();
}

}  // namespace forebay::formats
