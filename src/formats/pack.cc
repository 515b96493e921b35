#include "formats/pack.h"

#include <bzlib.h>
#include <lzma.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace forebay::formats {
namespace {

constexpr size_t kOutputBytes = 256 * 1024;
constexpr size_t kInputBytesMax = size_t{1} << 30;  // libbz2 counts in 32 bits
constexpr int kBzip2Level = 9;                      // what pandas asks for
// Random digits become equally small with every preset; the lowest is ten times faster.
constexpr uint32_t kXzPreset = 1;

class Plain : public Packer {
 public:
  Status run(std::span<const std::byte> bytes, bool /*is_last*/, const ByteSink& sink) override {
    return bytes.empty() ? Status() : sink(bytes);
  }
};

class Deflate : public Packer {
 public:
  explicit Deflate(DeflateWrapper wrapper) : deflater_(wrapper) {}
  Status run(std::span<const std::byte> bytes, bool is_last, const ByteSink& sink) override {
    return deflater_.run(bytes, is_last, sink);
  }

 private:
  Deflater deflater_;
};

class Bzip2 : public Packer {
 public:
  Bzip2() : is_open_(BZ2_bzCompressInit(&stream_, kBzip2Level, 0, 0) == BZ_OK) {}
  ~Bzip2() override {
    if (is_open_) BZ2_bzCompressEnd(&stream_);
  }

  Status run(std::span<const std::byte> bytes, bool is_last, const ByteSink& sink) override {
    if (!is_open_) return fail(ErrorCode::kResourceExhausted, "no memory for a bzip2 stream");
    while (!bytes.empty()) {
      const size_t n = std::min(bytes.size(), kInputBytesMax);
      stream_.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));
      stream_.avail_in = static_cast<unsigned>(n);
      while (stream_.avail_in > 0) FB_TRY(step(BZ_RUN, sink).context("bzip2"));
      bytes = bytes.subspan(n);
    }
    while (is_last && !has_ended_) FB_TRY(step(BZ_FINISH, sink).context("bzip2"));
    return {};
  }

 private:
  Status step(int action, const ByteSink& sink) {
    stream_.next_out = reinterpret_cast<char*>(out_.data());
    stream_.avail_out = static_cast<unsigned>(out_.size());
    const int code = BZ2_bzCompress(&stream_, action);
    if (code < 0) return fail(ErrorCode::kIo, "the encoder failed (code {})", code);
    has_ended_ = code == BZ_STREAM_END;
    const size_t made = out_.size() - stream_.avail_out;
    return made > 0 ? sink({out_.data(), made}) : Status();
  }

  bz_stream stream_{};
  bool is_open_;
  bool has_ended_ = false;
  std::vector<std::byte> out_ = std::vector<std::byte>(kOutputBytes);
};

class Xz : public Packer {
 public:
  Xz() : is_open_(lzma_easy_encoder(&stream_, kXzPreset, LZMA_CHECK_CRC64) == LZMA_OK) {}
  ~Xz() override { lzma_end(&stream_); }

  Status run(std::span<const std::byte> bytes, bool is_last, const ByteSink& sink) override {
    if (!is_open_) return fail(ErrorCode::kResourceExhausted, "no memory for an xz stream");
    stream_.next_in = reinterpret_cast<const uint8_t*>(bytes.data());
    stream_.avail_in = bytes.size();
    while (stream_.avail_in > 0) FB_TRY(step(LZMA_RUN, sink).context("xz"));
    while (is_last && !has_ended_) FB_TRY(step(LZMA_FINISH, sink).context("xz"));
    return {};
  }

 private:
  Status step(lzma_action action, const ByteSink& sink) {
    stream_.next_out = reinterpret_cast<uint8_t*>(out_.data());
    stream_.avail_out = out_.size();
    const lzma_ret code = lzma_code(&stream_, action);
    if (code != LZMA_OK && code != LZMA_STREAM_END)
      return fail(ErrorCode::kIo, "the encoder failed (code {})", static_cast<int>(code));
    has_ended_ = code == LZMA_STREAM_END;
    const size_t made = out_.size() - stream_.avail_out;
    return made > 0 ? sink({out_.data(), made}) : Status();
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool is_open_;
  bool has_ended_ = false;
  std::vector<std::byte> out_ = std::vector<std::byte>(kOutputBytes);
};

}  // namespace

std::unique_ptr<Packer> make_packer(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return std::make_unique<Plain>();
    case Compression::kGzip:
      return std::make_unique<Deflate>(DeflateWrapper::kGzip);
    case Compression::kZip:
      return std::make_unique<Deflate>(DeflateWrapper::kNone);
    case Compression::kBz2:
      return std::make_unique<Bzip2>();
    case Compression::kXz:
      return std::make_unique<Xz>();
    case Compression::kLzf:
      break;
  }
  return nullptr;
}

Status write_packed(storage::Writer& writer, Compression compression,
                    const std::function<Status(const ByteSink&)>& fill) {
  const auto packer = make_packer(compression);
  const ByteSink append = [&](std::span<const std::byte> piece) { return writer.append(piece); };
  FB_TRY(fill([&](std::span<const std::byte> piece) { return packer->run(piece, false, append); }));
  return packer->run({}, true, append);
}

uint64_t packed_bytes_max(Compression compression, uint64_t bytes) {
  switch (compression) {
    case Compression::kGzip:
    case Compression::kZip:
      return Deflater::bytes_max(bytes);
    case Compression::kBz2:
      return bytes + bytes / 100 + 600;  // as its manual says
    case Compression::kXz:
      return lzma_stream_buffer_bound(bytes);
    case Compression::kNone:
    case Compression::kLzf:
      break;
  }
  return bytes;
}

}  // namespace forebay::formats
