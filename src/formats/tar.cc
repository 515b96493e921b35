#include "formats/tar.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "formats/content_kind.h"

namespace forebay::formats {
namespace {

// Fields of a header.
struct Range {
  size_t offset, bytes;
};
constexpr Range kName{0, 100}, kMode{100, 8}, kUid{108, 8}, kGid{116, 8}, kSize{124, 12},
    kTime{136, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr size_t kType = 156, kVersion = 263;
constexpr size_t kSparseMore = 482, kSparseMapMore = 504;  // GNU: another block of the map follows

constexpr uint64_t kExtensionBytesMax = 1 << 20;  // a name or a set of records
constexpr uint64_t kHeadersBytes =
    4 * kTarBlockBytes;  // a header, extended ones before it included
constexpr uint64_t kSizeMax = uint64_t{1} << 62;

using Block = std::span<const std::byte>;

std::string_view text_at(Block block, Range field) {
  const std::string_view text(reinterpret_cast<const char*>(block.data()) + field.offset,
                              field.bytes);
  return text.substr(0, text.find('\0'));
}

bool is_zero(Block block) {
  return std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Octal with spaces or zeros around it, or GNU's binary form. Nothing when it is neither.
std::optional<uint64_t> number_at(Block block, Range field) {
  const auto bytes = block.subspan(field.offset, field.bytes);
  if (bytes[0] == std::byte{0x80}) {
    uint64_t value = 0;
    for (const std::byte byte : bytes.subspan(1)) {
      if (value > kSizeMax >> 8) return std::nullopt;
      value = value << 8 | static_cast<uint64_t>(byte);
    }
    return value;
  }
  std::string_view text = text_at(block, field);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty()) return 0;
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value, 8);
  if (parsed.ec != std::errc() || parsed.ptr != end || value > kSizeMax) return std::nullopt;
  return value;
}

// The sum of all bytes, its own field counted as spaces. Old programs summed signed bytes.
bool has_right_checksum(Block block) {
  const auto stored = number_at(block, kChecksum);
  if (!stored) return false;
  uint64_t sum = 0;
  int64_t signed_sum = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const bool is_own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.bytes;
    const auto byte = is_own ? uint8_t{' '} : static_cast<uint8_t>(block[i]);
    sum += byte;
    signed_sum += static_cast<int8_t>(byte);
  }
  return *stored == sum || static_cast<int64_t>(*stored) == signed_sum;
}

std::string path_of(Block block) {
  const std::string_view name = text_at(block, kName);
  const std::string_view magic(reinterpret_cast<const char*>(block.data()) + kMagic.offset,
                               kMagic.bytes);
  if (magic != std::string_view("ustar\0", 6)) return std::string(name);  // GNU: no prefix there
  const std::string_view prefix = text_at(block, kPrefix);
  return prefix.empty() ? std::string(name) : fmt::format("{}/{}", prefix, name);
}

// What a member of that type is, and whether data follow its header.
struct TypeFacts {
  TarMember::Kind kind = TarMember::Kind::kOther;
  std::string_view what;
  bool has_data = false;
};
TypeFacts facts_of(char type, std::string_view path) {
  using Kind = TarMember::Kind;
  switch (type) {
    case '\0':
      if (path.ends_with('/')) return {Kind::kFolder, "a folder", false};  // before ustar
      return {Kind::kFile, "a file", true};
    case '0':
    case '7':
      return {Kind::kFile, "a file", true};
    case '1':
      return {Kind::kOther, "a hard link", false};
    case '2':
      return {Kind::kOther, "a symbolic link", false};
    case '3':
      return {Kind::kOther, "a character device", false};
    case '4':
      return {Kind::kOther, "a block device", false};
    case '5':
      return {Kind::kFolder, "a folder", false};
    case '6':
      return {Kind::kOther, "a pipe", false};
    case 'S':
      return {Kind::kOther, "a sparse file", true};
    default:
      return {Kind::kOther, "of an unknown type", true};
  }
}

}  // namespace

Result<std::span<const std::byte>> TarWalker::window(uint64_t offset, uint64_t bytes) {
  const bool is_held = offset >= window_offset_ && bytes <= window_.size() &&
                       offset - window_offset_ <= window_.size() - bytes;
  if (!is_held) {
    const uint64_t size = source_.size();
    if (offset > size || bytes > size - offset)
      return fail(ErrorCode::kCorruption, "truncated at byte {}: a header begins at byte {}", size,
                  offset);
    const bool is_far_apart = last_bytes_ > windows_.large_member_bytes;
    const uint64_t wanted = is_far_apart ? std::min(kHeadersBytes, windows_.bytes) : windows_.bytes;
    window_ = FB_TRY(source_.at(offset, std::min(std::max(bytes, wanted), size - offset)));
    window_offset_ = offset;
  }
  return window_.subspan(offset - window_offset_, bytes);
}

// The content of an extended header, whose own header lies at `at_`.
Result<std::string> TarWalker::read_extension(uint64_t bytes) {
  if (bytes > kExtensionBytesMax)
    return fail(ErrorCode::kCorruption, "an extended header of {} bytes at byte {}", bytes, at_);
  const auto data = FB_TRY(window(at_ + kTarBlockBytes, bytes));
  std::string text(reinterpret_cast<const char*>(data.data()), data.size());
  at_ += kTarBlockBytes + tar_padded(bytes);
  return text;
}

// Records "LENGTH KEY=VALUE\n", the length counting itself.
Status TarWalker::parse_pax(std::string_view text, bool is_global, Extended& extended) const {
  const auto damaged = [&] {
    return fail(ErrorCode::kCorruption, "a damaged extended header before byte {}", at_);
  };
  while (!text.empty() && text.front() != '\0') {
    uint64_t length = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(parsed.ptr - text.data());
    if (parsed.ec != std::errc() || length > text.size() || length < digits + 3 ||
        text[digits] != ' ' || text[length - 1] != '\n')
      return damaged();
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    text.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return damaged();
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (is_global && (key == "path" || key == "size" || key.starts_with("GNU.sparse.")))
      return fail(ErrorCode::kUnsupported, "a global header that sets {} before byte {}", key, at_);
    if (key == "path") extended.path = value;
    if (key.starts_with("GNU.sparse.")) extended.is_sparse = true;
    if (key == "size") {
      uint64_t bytes = 0;
      const auto number = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (number.ec != std::errc() || number.ptr != value.data() + value.size()) return damaged();
      extended.bytes = bytes;
    }
  }
  return {};
}

// GNU's map of holes goes on in blocks between header and data.
Status TarWalker::skip_sparse_map(std::span<const std::byte> header) {
  bool has_more = header[kSparseMore] != std::byte{0};
  while (has_more) {
    at_ += kTarBlockBytes;
    const auto block = FB_TRY(window(at_, kTarBlockBytes));
    has_more = block[kSparseMapMore] != std::byte{0};
  }
  return {};
}

Result<std::optional<TarMember>> TarWalker::next() {
  damaged_path_.clear();
  const uint64_t start = at_;
  Extended extended;
  while (true) {
    if (at_ >= source_.size()) {
      if (at_ == start) return std::optional<TarMember>();
      return fail(ErrorCode::kCorruption, "truncated at byte {}: a name without its member",
                  source_.size());
    }
    const auto header = FB_TRY(window(at_, kTarBlockBytes));
    if (is_zero(header)) {
      // Two of them are the end; one with more behind it is a hole in the archive.
      const auto second = window(at_ + kTarBlockBytes, kTarBlockBytes);
      if (second.ok() && !is_zero(*second))
        return fail(ErrorCode::kCorruption,
                    "the header at byte {} is a block of zeros, though more follows", at_);
      has_end_ = true;
      return std::optional<TarMember>();
    }
    if (!has_right_checksum(header))
      return fail(ErrorCode::kCorruption, "the header at byte {} is damaged ({})", at_,
                  at_ == 0 ? content_kind(header.first(256)) : "wrong checksum");
    const auto size = number_at(header, kSize);
    if (!size) return fail(ErrorCode::kCorruption, "the header at byte {} has no size", at_);
    const char type = static_cast<char>(header[kType]);
    if (type == 'L' || type == 'K' || type == 'x' || type == 'X' || type == 'g') {
      const std::string text = FB_TRY(read_extension(*size));
      if (type == 'L') extended.path = text.substr(0, text.find('\0'));
      if (type == 'x' || type == 'X' || type == 'g') FB_TRY(parse_pax(text, type == 'g', extended));
      continue;
    }
    TarMember member{.path = extended.path ? *extended.path : path_of(header),
                     .header_offset = start};
    const TypeFacts facts = facts_of(type, member.path);
    member.kind = extended.is_sparse ? TarMember::Kind::kOther : facts.kind;
    member.what = extended.is_sparse ? "a sparse file" : facts.what;
    damaged_path_ = member.path;
    if (type == 'S') FB_TRY(skip_sparse_map(header));
    member.data_offset = at_ + kTarBlockBytes;
    member.bytes = !facts.has_data ? 0 : extended.bytes ? *extended.bytes : *size;
    if (member.data_offset > source_.size() || member.bytes > source_.size() - member.data_offset)
      return fail(ErrorCode::kCorruption,
                  "{}: truncated at byte {}; its {} bytes from byte {} on would end at {}",
                  member.path, source_.size(), member.bytes, member.data_offset,
                  member.data_offset + member.bytes);
    damaged_path_.clear();
    at_ = std::min(source_.size(), member.data_offset + tar_padded(member.bytes));
    member.end_offset = at_;
    last_bytes_ = member.bytes;
    return std::optional<TarMember>(std::move(member));
  }
}

Result<std::array<std::byte, kTarBlockBytes>> make_tar_header(std::string_view path,
                                                              uint64_t bytes) {
  if (path.size() > kName.bytes)
    return fail(ErrorCode::kInvalidArgument, "{}: a path of more than {} bytes", path, kName.bytes);
  std::array<std::byte, kTarBlockBytes> block{};
  const auto put = [&](size_t offset, std::string_view text) {
    std::memcpy(&block[offset], text.data(), text.size());
  };
  put(kName.offset, path);
  put(kMode.offset, "0000644");
  put(kUid.offset, "0000000");
  put(kGid.offset, "0000000");
  if (bytes < uint64_t{1} << 33) {
    put(kSize.offset, fmt::format("{:011o}", bytes));
  } else {
    block[kSize.offset] = std::byte{0x80};
    for (size_t i = 0; i < sizeof bytes; ++i)
      block[kSize.offset + kSize.bytes - 1 - i] = static_cast<std::byte>(bytes >> (8 * i));
  }
  put(kTime.offset, "00000000000");
  block[kType] = std::byte{'0'};
  put(kMagic.offset, "ustar");
  put(kVersion, "00");
  put(kChecksum.offset, "        ");
  uint64_t sum = 0;
  for (const std::byte byte : block) sum += static_cast<uint64_t>(byte);
  put(kChecksum.offset, fmt::format("{:06o}", sum));
  block[kChecksum.offset + 6] = std::byte{0};
  return block;
}

}  // namespace forebay::formats
