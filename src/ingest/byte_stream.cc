#include "ingest/byte_stream.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "sys/file.h"

namespace forebay::ingest {
namespace {

constexpr size_t kPackedBytes = 256 << 10;  // read from the file at a time

class FileStream : public ByteStream {
 public:
  FileStream(sys::ScopedFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<size_t> read(std::span<std::byte> out) override {
    const int64_t got = sys::read_at(fd_.get(), out, at_);
    if (got < 0) return sys::error_from_errno(static_cast<int>(-got), path_, "reading");
    at_ += static_cast<uint64_t>(got);
    return static_cast<size_t>(got);
  }
  uint64_t bytes_taken() const override { return at_; }

 private:
  sys::ScopedFd fd_;
  std::string path_;
  uint64_t at_ = 0;
};

class MemoryStream : public ByteStream {
 public:
  explicit MemoryStream(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<size_t> read(std::span<std::byte> out) override {
    const size_t size = std::min(out.size(), bytes_.size() - at_);
    if (size > 0) std::memcpy(out.data(), bytes_.data() + at_, size);
    at_ += size;
    return size;
  }
  uint64_t bytes_taken() const override { return at_; }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

// Members follow each other; what is no member ends the stream, as gzip itself has it.
class GzipStream : public ByteStream {
 public:
  explicit GzipStream(std::unique_ptr<ByteStream> packed)
      : packed_(std::move(packed)), input_(kPackedBytes) {
    begin_member();
  }

  Result<size_t> read(std::span<std::byte> out) override {
    if (damage_ != nullptr) return damaged(0, damage_);
    size_t filled = 0;
    while (filled < out.size() && !is_ended_) {
      if (stream_.avail_in == 0) FB_TRY(refill());
      if (stream_.block_state == ISAL_BLOCK_FINISH && !next_member()) break;
      const size_t room = std::min<size_t>(out.size() - filled, size_t{1} << 30);
      stream_.next_out = reinterpret_cast<uint8_t*>(out.data() + filled);
      stream_.avail_out = static_cast<uint32_t>(room);
      const int code = isal_inflate(&stream_);
      filled += room - stream_.avail_out;
      if (code == ISAL_INCORRECT_CHECKSUM) return damaged(filled, "the gzip checksum is wrong");
      if (code < 0 || code == ISAL_NEED_DICT) return damaged(filled, "invalid gzip stream");
      if (stream_.avail_in == 0 && packed_ended_ && stream_.avail_out == room &&
          stream_.block_state != ISAL_BLOCK_FINISH) {
        return damaged(filled, "the gzip stream is cut");
      }
    }
    return filled;
  }
  uint64_t bytes_taken() const override { return packed_->bytes_taken(); }

 private:
  void begin_member() {
    uint8_t* next = stream_.next_in;
    const uint32_t left = stream_.avail_in;
    isal_inflate_init(&stream_);
    stream_.crc_flag = ISAL_GZIP;
    stream_.next_in = next;
    stream_.avail_in = left;
  }

  Status refill() {
    if (packed_ended_) return {};
    const size_t got = FB_TRY(packed_->read(input_));
    packed_ended_ = got < input_.size();
    stream_.next_in = reinterpret_cast<uint8_t*>(input_.data());
    stream_.avail_in = static_cast<uint32_t>(got);
    return {};
  }

  bool next_member() {
    // The decoder reads ahead by whole bytes; they belong to what follows.
    const auto ahead = static_cast<uint32_t>(stream_.read_in_length / 8);
    const auto used =
        static_cast<size_t>(stream_.next_in - reinterpret_cast<uint8_t*>(input_.data()));
    const auto back = static_cast<uint32_t>(std::min<size_t>(ahead, used));
    stream_.next_in -= back;
    stream_.avail_in += back;
    stream_.read_in_length = 0;
    if (stream_.avail_in == 0 || *stream_.next_in != 0x1f) {
      is_ended_ = true;
      return false;
    }
    begin_member();
    return true;
  }

  // What was unpacked before the damage is handed out first.
  Result<size_t> damaged(size_t filled, const char* what) {
    damage_ = what;
    if (filled > 0) return filled;
    return fail(ErrorCode::kCorruption, "{}", what);
  }

  std::unique_ptr<ByteStream> packed_;
  std::vector<std::byte> input_;
  inflate_state stream_ = {};
  bool packed_ended_ = false;
  bool is_ended_ = false;
  const char* damage_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<ByteStream>> open_file_stream(const std::string& path) {
  sys::ScopedFd fd = FB_TRY(sys::open_file(sys::kCurrentFolder, path, sys::OpenMode::kRead));
  std::byte first[2] = {};
  const int64_t got = sys::read_at(fd.get(), first, 0);
  if (got < 0) return sys::error_from_errno(static_cast<int>(-got), path, "reading");
  sys::advise_sequential(fd.get());
  std::unique_ptr<ByteStream> stream = std::make_unique<FileStream>(std::move(fd), path);
  if (got == 2 && first[0] == std::byte{0x1f} && first[1] == std::byte{0x8b}) {
    stream = std::make_unique<GzipStream>(std::move(stream));
  }
  return stream;
}

std::unique_ptr<ByteStream> open_memory_stream(std::span<const std::byte> bytes) {
  std::unique_ptr<ByteStream> stream = std::make_unique<MemoryStream>(bytes);
  if (bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b}) {
    stream = std::make_unique<GzipStream>(std::move(stream));
  }
  return stream;
}

}  // namespace forebay::ingest
