#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc.h"
#include "base/error.h"
#include "formats/inflate.h"
#include "ops/exif.h"
#include "ops/image_info.h"

namespace forebay::ops {
namespace {

constexpr size_t kSignatureBytes = 8;
constexpr size_t kChunkBytes = 12;            // length, type, CRC
constexpr size_t kProfileBytesMax = 1 << 16;  // of a compressed text profile

uint32_t be32(std::span<const std::byte> bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(bytes[at + i]);
  return value;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Chunk {
  std::string_view type;
  std::span<const std::byte> data;
  size_t offset = 0;  // of the chunk
};

// Steps over chunks by their lengths. Ends without a chunk at a cut one.
class ChunkWalker {
 public:
  explicit ChunkWalker(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::optional<Chunk> next() {
    if (at_ > bytes_.size() || bytes_.size() - at_ < kChunkBytes) return std::nullopt;
    const size_t length = be32(bytes_, at_);
    if (length > bytes_.size() - at_ - kChunkBytes) return std::nullopt;
    const Chunk chunk{as_text(bytes_.subspan(at_ + 4, 4)), bytes_.subspan(at_ + 8, length), at_};
    at_ += kChunkBytes + length;
    return chunk;
  }
  size_t at() const { return at_; }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = kSignatureBytes;
};

// ImageMagick's "Raw profile type exif": a name, a length and hexadecimal digits on lines.
int profile_orientation(std::string_view profile) {
  for (int line = 0; line < 3; ++line) {
    const size_t end = profile.find('\n');
    if (end == std::string_view::npos) return 0;
    profile.remove_prefix(end + 1);
  }
  std::vector<std::byte> bytes;
  int high = -1;
  for (const char c : profile) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) continue;
    if (high < 0) {
      high = digit;
      continue;
    }
    bytes.push_back(std::byte(high * 16 + digit));
    high = -1;
  }
  const std::span<const std::byte> all(bytes);
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  const bool has_prefix = as_text(all).substr(0, 6) == kPrefix;
  return exif_orientation(has_prefix ? all.subspan(6) : all);
}

std::string inflate_text(std::span<const std::byte> zlib) {
  std::vector<std::byte> out(kProfileBytesMax);
  std::span<std::byte> room(out);
  formats::Inflater inflater;
  inflater.begin(formats::DeflateWrapper::kZlib);
  if (!inflater.run(zlib, room).ok()) return "";
  return std::string(as_text(out).substr(0, out.size() - room.size()));
}

struct Orientations {
  int exif = 0, profile = 0, xmp = 0;
};

void note_orientation(const Chunk& chunk, Orientations& found) {
  if (chunk.type == "eXIf") found.exif = exif_orientation(chunk.data);
  if (chunk.type != "tEXt" && chunk.type != "zTXt" && chunk.type != "iTXt") return;
  const std::string_view text = as_text(chunk.data);
  const size_t end = text.find('\0');
  if (end == std::string_view::npos) return;
  const std::string_view key = text.substr(0, end);
  if (key == "XML:com.adobe.xmp" && chunk.type == "iTXt")
    found.xmp = xmp_orientation(text.substr(end));
  if (key != "Raw profile type exif") return;
  if (chunk.type == "tEXt") found.profile = profile_orientation(text.substr(end + 1));
  if (chunk.type == "zTXt" && chunk.data.size() > end + 2)
    found.profile = profile_orientation(inflate_text(chunk.data.subspan(end + 2)));
}

}  // namespace

Result<PngInfo> read_png_info(std::span<const std::byte> bytes) {
  ChunkWalker walker(bytes);
  const auto header = walker.next();
  if (!header) return fail(ErrorCode::kCorruption, "truncated at byte {}", bytes.size());
  if (header->type != "IHDR" || header->data.size() != 13)
    return fail(ErrorCode::kCorruption, "its first chunk is not a PNG header");
  PngInfo info{.width = be32(header->data, 0),
               .height = be32(header->data, 4),
               .bit_depth = static_cast<int>(header->data[8]),
               .color_type = static_cast<int>(header->data[9]),
               .is_interlaced = header->data[12] == std::byte{1},
               .palette = {},
               .transparency = {}};
  if (info.width == 0 || info.height == 0)
    return fail(ErrorCode::kCorruption, "an image of {} x {} pixels", info.width, info.height);
  Orientations found;
  bool has_data = false;
  while (const auto chunk = walker.next()) {
    if (chunk->type == "IDAT") has_data = true;
    if (chunk->type == "IEND") {
      info.has_end = true;
      break;
    }
    if (chunk->type == "PLTE" && !has_data) info.palette = chunk->data;
    if (chunk->type == "tRNS" && !has_data) {
      info.has_transparency = true;
      info.transparency = chunk->data;
    }
    note_orientation(*chunk, found);
  }
  for (const int orientation : {found.exif, found.profile, found.xmp}) {
    if (orientation == 0) continue;
    info.orientation = orientation;
    break;
  }
  return info;
}

Status check_png_chunks(std::span<const std::byte> bytes) {
  ChunkWalker walker(bytes);
  while (const auto chunk = walker.next()) {
    const uint32_t stored = be32(bytes, chunk->offset + 8 + chunk->data.size());
    const uint32_t crc = base::crc32(0, bytes.subspan(chunk->offset + 4, chunk->data.size() + 4));
    if (crc != stored)
      return fail(ErrorCode::kCorruption, "chunk {} at byte {}: CRC {:#010x}, expected {:#010x}",
                  chunk->type, chunk->offset, crc, stored);
    if (chunk->type == "IEND") return {};
  }
  return fail(ErrorCode::kCorruption, "truncated at byte {}", bytes.size());
}

}  // namespace forebay::ops
