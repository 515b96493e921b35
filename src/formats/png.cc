// png: one image per file. Reading checks what the file is; pixels are made in ops.
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/crc.h"
#include "base/error.h"
#include "formats/builtin.h"
#include "formats/content_kind.h"
#include "formats/image_record.h"
#include "formats/little_endian.h"
#include "formats/payload.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone};
constexpr std::string_view kExtensions[] = {"png"};
constexpr uint64_t kSideMax = 0x7fffffff;
constexpr size_t kStoredBytesMax = 65535;  // of one stored deflate block
constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n", 8);
constexpr uint64_t kFramingBytes = 8 + 25 + 12;  // signature, IHDR, IEND
constexpr uint64_t kChunkBytes = 12;             // length, type, CRC
constexpr uint64_t kBlockBytes = 5;              // header of a stored block

Result<FileIndex> index(storage::Store& /*store*/, const storage::FileInfo& file,
                        const FormatOptions& /*options*/) {
  if (file.size == 0) return fail(ErrorCode::kCorruption, "{}: empty file", file.path);
  return FileIndex{};
}

class PngReader : public Reader {
 public:
  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& /*index*/, uint64_t /*sample_in_file*/) override {
    return read_image(path, bytes);
  }
};

void append_be32(std::vector<std::byte>& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(std::byte(value >> shift));
}

Status append_chunk(storage::Writer& writer, std::string_view type,
                    std::span<const std::byte> data) {
  std::vector<std::byte> chunk;
  chunk.reserve(data.size() + kChunkBytes);
  append_be32(chunk, static_cast<uint32_t>(data.size()));
  for (const char c : type) chunk.push_back(static_cast<std::byte>(c));
  chunk.insert(chunk.end(), data.begin(), data.end());
  append_be32(chunk, base::crc32(0, std::span(chunk).subspan(4)));
  return writer.append(chunk);
}

// Turns rows of noise into IDAT chunks of one stored block each: noise does not compress, and zlib
// stores it too.
class NoiseStream {
 public:
  NoiseStream(storage::Writer& writer, uint64_t bytes) : writer_(writer), left_(bytes) {
    block_.reserve(kStoredBytesMax + 16);
  }

  Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const size_t n = std::min(bytes.size(), kStoredBytesMax - pending_.size());
      pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
      bytes = bytes.subspan(n);
      left_ -= n;
      if (pending_.size() == kStoredBytesMax || left_ == 0) FB_TRY(flush());
    }
    return {};
  }

 private:
  Status flush() {
    block_.clear();
    if (is_first_) {
      block_.push_back(std::byte{0x78});  // zlib header: 32 KiB window, fastest
      block_.push_back(std::byte{0x01});
    }
    is_first_ = false;
    const auto n = static_cast<uint16_t>(pending_.size());
    std::byte header[kBlockBytes] = {std::byte(left_ == 0 ? 1 : 0)};
    store_le<uint16_t>(header + 1, n);
    store_le<uint16_t>(header + 3, static_cast<uint16_t>(~n));
    block_.insert(block_.end(), header, header + kBlockBytes);
    block_.insert(block_.end(), pending_.begin(), pending_.end());
    adler_ = isal_adler32(adler_, reinterpret_cast<const unsigned char*>(pending_.data()),
                          pending_.size());
    if (left_ == 0) append_be32(block_, adler_);
    pending_.clear();
    return append_chunk(writer_, "IDAT", block_);
  }

  storage::Writer& writer_;
  uint64_t left_;
  bool is_first_ = true;
  uint32_t adler_ = 1;
  std::vector<std::byte> pending_;
  std::vector<std::byte> block_;
};

Status check_side(const FileSpec& image) {
  if (image.rows > kSideMax || image.columns > kSideMax)
    return fail(ErrorCode::kInvalidArgument, "{}: a PNG of {} x {} pixels (at most {} a side)",
                image.path, image.columns, image.rows, kSideMax);
  return {};
}

Status write(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  const FileSpec image = FB_TRY(grey_image_spec(spec));
  FB_TRY(check_side(image));
  FB_TRY(writer.append(std::as_bytes(std::span(kSignature))));
  std::vector<std::byte> header;
  append_be32(header, static_cast<uint32_t>(image.columns));
  append_be32(header, static_cast<uint32_t>(image.rows));
  // Depth 8, grey, deflate, adaptive filters, not interlaced.
  for (const int value : {8, 0, 0, 0, 0}) header.push_back(std::byte(value));
  FB_TRY(append_chunk(writer, "IHDR", header));
  NoiseStream stream(writer, image.rows * (image.columns + 1));
  Payload payload(image);
  const std::byte no_filter{0};
  for (uint64_t row = 0; row < image.rows; ++row) {
    FB_TRY(stream.append({&no_filter, 1}));
    FB_TRY(payload.produce(image.columns,
                           [&](std::span<const std::byte> piece) { return stream.append(piece); }));
  }
  return append_chunk(writer, "IEND", {});
}

uint64_t estimate_bytes(const FileSpec& spec) {
  const auto image = grey_image_spec(spec);
  if (!image.ok() || !check_side(*image).ok()) return UINT64_MAX;
  const uint64_t raw = image->rows * (image->columns + 1);
  const uint64_t blocks = (raw + kStoredBytesMax - 1) / kStoredBytesMax;
  return kFramingBytes + raw + blocks * (kChunkBytes + kBlockBytes) + 2 + 4;
}

}  // namespace

const Format kPng{.name = "png",
                  .summary = "one PNG image per file",
                  .extensions = kExtensions,
                  .recognises = is_png,
                  .index = index,
                  .make_reader = [](const FormatOptions&) -> std::unique_ptr<Reader> {
                    return std::make_unique<PngReader>();
                  },
                  .compressions = kCompressions,
                  .write = write,
                  .estimate_bytes = estimate_bytes,
                  .family = kImageFamily};

}  // namespace forebay::formats
