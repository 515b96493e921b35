#include "formats/content_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace forebay::formats {
namespace {

std::string_view as_text(std::span<const std::byte> head) {
  return {reinterpret_cast<const char*>(head.data()), head.size()};
}

bool starts_with(std::span<const std::byte> head, std::string_view magic) {
  return as_text(head).substr(0, magic.size()) == magic;
}

struct Magic {
  std::string_view bytes;
  std::string_view kind;
};

constexpr std::array<Magic, 16> kMagics{{{"\xff\xd8\xff", "image/jpeg"},
                                         {"\x89PNG\r\n\x1a\n", "image/png"},
                                         {"GIF8", "image/gif"},
                                         {"BM", "image/bmp"},
                                         {"II*", "image/tiff"},
                                         {"MM", "image/tiff"},
                                         {"\x93NUMPY", "npy array"},
                                         {"PK\x03\x04", "zip archive"},
                                         {"PK\x05\x06", "empty zip archive"},
                                         {"\x89HDF", "HDF5 file"},
                                         {"PAR1", "parquet file"},
                                         {"%PDF", "application/pdf"},
                                         {"\x1f\x8b", "gzip data"},
                                         {"\x28\xb5\x2f\xfd", "zstd data"},
                                         {"BZh", "bzip2 data"},
                                         {"\xfd"
                                          "7zXZ",
                                          "xz data"}}};

bool is_html(std::span<const std::byte> head) {
  std::string text(as_text(head).substr(0, 64));
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t start = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (start == std::string::npos) return false;
  const std::string_view rest = std::string_view(text).substr(start);
  return rest.substr(0, 9) == "<!doctype" || rest.substr(0, 5) == "<html" ||
         rest.substr(0, 5) == "<head" || rest.substr(0, 5) == "<body";
}

}  // namespace

bool is_jpeg(std::span<const std::byte> head) {
  return starts_with(head, "\xff\xd8\xff");
}
bool is_png(std::span<const std::byte> head) {
  return starts_with(head, "\x89PNG\r\n\x1a\n");
}
bool is_gzip(std::span<const std::byte> head) {
  return starts_with(head, "\x1f\x8b\x08");
}

bool is_zlib(std::span<const std::byte> head) {
  if (head.size() < 2) return false;
  const auto method = static_cast<unsigned>(head[0]);
  const auto flags = static_cast<unsigned>(head[1]);
  return (method & 0x0f) == 8 && (method >> 4) <= 7 && (method * 256 + flags) % 31 == 0;
}

bool is_lfs_pointer(std::span<const std::byte> head) {
  return starts_with(head, "version https://git-lfs.github.com/spec/");
}

Status refuse_lfs_pointer(std::span<const std::byte> head) {
  if (!is_lfs_pointer(head)) return {};
  return fail(ErrorCode::kCorruption,
              "a git-lfs pointer, not the data; fetch it with 'git lfs pull'");
}

Error explain_lfs_pointer(ByteSource& source, Error error) {
  const auto head = source.at(0, std::min<uint64_t>(source.size(), 64));
  if (!head.ok()) return error;
  Status refused = refuse_lfs_pointer(*head);
  return refused.ok() ? error : Error(std::move(refused).error());
}

std::string_view content_kind(std::span<const std::byte> head) {
  if (head.empty()) return "empty file";
  if (is_lfs_pointer(head)) return "git-lfs pointer";
  if (is_html(head)) return "text/html";
  if (starts_with(head, "RIFF") && head.size() >= 12 && as_text(head).substr(8, 4) == "WEBP")
    return "image/webp";
  for (const Magic& magic : kMagics)
    if (starts_with(head, magic.bytes)) return magic.kind;
  if (starts_with(head, "<?xml") || starts_with(head, "<svg")) return "text/xml";
  if (starts_with(head, "{") || starts_with(head, "[")) return "text/json";
  const auto printable = [](std::byte b) {
    const auto c = static_cast<unsigned char>(b);
    return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\r' || c == '\t';
  };
  const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
  if (std::all_of(head.begin(), head.end(), is_zero)) return "zero bytes";
  if (std::all_of(head.begin(), head.end(), printable)) return "text";
  return "unknown content";
}

}  // namespace forebay::formats
