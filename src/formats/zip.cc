#include "formats/zip.h"

#include <algorithm>

#include "base/crc.h"
#include "base/error.h"
#include "formats/little_endian.h"

namespace forebay::formats {
namespace {

constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kCentralBytes = 46;

struct End {
  uint64_t offset = 0;  // of the record that ends the directory: zip64's where there is one
  uint64_t directory_bytes = 0;
  uint64_t directory_offset = 0;  // as written; wrong by the bytes put before the archive
  uint64_t entry_count = 0;
};

// The end record is the last one whose comment reaches exactly to the end of the file; a comment
// may itself contain the signature, so the search goes backwards and tests the length. Bytes
// appended behind the comment are tolerated, as Python's zipfile does, when no exact match exists.
Result<End> find_end(ByteSource& source) {
  const uint64_t size = source.size();
  if (size < kEndBytes) return fail(ErrorCode::kCorruption, "truncated at byte {}", size);
  const uint64_t tail_bytes = std::min<uint64_t>(size, kZipEndBytesMax);
  const uint64_t tail_offset = size - tail_bytes;
  const auto tail = FB_TRY(source.at(tail_offset, tail_bytes));
  int64_t loose = -1;
  for (int64_t i = static_cast<int64_t>(tail_bytes - kEndBytes); i >= 0; --i) {
    const std::byte* p = tail.data() + i;
    if (load_le<uint32_t>(p) != kZipEndSignature) continue;
    const uint64_t end = static_cast<uint64_t>(i) + kEndBytes + load_le<uint16_t>(p + 20);
    if (loose < 0) loose = i;
    if (end != tail_bytes) continue;
    loose = i;
    break;
  }
  if (loose < 0)
    return fail(ErrorCode::kCorruption, "truncated at byte {}: no zip directory at its end", size);
  const std::byte* p = tail.data() + loose;
  const uint16_t disk = load_le<uint16_t>(p + 4);
  if (disk != 0 && disk != 0xffff)
    return fail(ErrorCode::kUnsupported, "a zip file in several parts (part {})", disk);
  return End{.offset = tail_offset + static_cast<uint64_t>(loose),
             .directory_bytes = load_le<uint32_t>(p + 12),
             .directory_offset = load_le<uint32_t>(p + 16),
             .entry_count = load_le<uint16_t>(p + 10)};
}

// Replaces `end` by the zip64 record when a locator lies right before it.
Status find_end64(ByteSource& source, End& end) {
  if (end.offset < kLocatorBytes + kEnd64Bytes) return {};
  const auto locator = FB_TRY(source.at(end.offset - kLocatorBytes, kLocatorBytes));
  if (load_le<uint32_t>(locator.data()) != kZip64LocatorSignature) return {};
  const uint64_t written = load_le<uint64_t>(locator.data() + 8);
  // Where the locator says, else right before the locator (bytes were put before the archive).
  for (const uint64_t offset : {written, end.offset - kLocatorBytes - kEnd64Bytes}) {
    if (offset > end.offset - kLocatorBytes - kEnd64Bytes) continue;
    const auto record = FB_TRY(source.at(offset, kEnd64Bytes));
    if (load_le<uint32_t>(record.data()) != kZip64EndSignature) continue;
    end = End{.offset = offset,
              .directory_bytes = load_le<uint64_t>(record.data() + 40),
              .directory_offset = load_le<uint64_t>(record.data() + 48),
              .entry_count = load_le<uint64_t>(record.data() + 32)};
    return {};
  }
  return fail(ErrorCode::kCorruption,
              "the zip64 end record is not where its locator points (byte {})", written);
}

Result<ZipMember> parse_central(std::span<const std::byte> bytes, uint64_t offset, size_t& used) {
  if (bytes.size() < kCentralBytes || load_le<uint32_t>(bytes.data()) != kZipCentralSignature)
    return fail(ErrorCode::kCorruption, "no directory entry at byte {}", offset);
  const std::byte* p = bytes.data();
  const size_t name_bytes = load_le<uint16_t>(p + 28);
  const size_t extra_bytes = load_le<uint16_t>(p + 30);
  used = kCentralBytes + name_bytes + extra_bytes + load_le<uint16_t>(p + 32);
  if (used > bytes.size())
    return fail(ErrorCode::kCorruption, "directory entry at byte {} runs past the directory",
                offset);
  ZipMember member{
      .name = std::string(reinterpret_cast<const char*>(p + kCentralBytes), name_bytes),
      .flags = load_le<uint16_t>(p + 8),
      .method = load_le<uint16_t>(p + 10),
      .crc = load_le<uint32_t>(p + 16),
      .compressed_bytes = load_le<uint32_t>(p + 20),
      .bytes = load_le<uint32_t>(p + 24),
      .header_offset = load_le<uint32_t>(p + 42)};
  FB_TRY(apply_zip64(bytes.subspan(kCentralBytes + name_bytes, extra_bytes), member, true));
  return member;
}

}  // namespace

Status apply_zip64(std::span<const std::byte> extra, ZipMember& member, bool has_offset) {
  std::vector<uint64_t*> wanted;
  if (member.bytes == 0xffffffff) wanted.push_back(&member.bytes);
  if (member.compressed_bytes == 0xffffffff) wanted.push_back(&member.compressed_bytes);
  if (has_offset && member.header_offset == 0xffffffff) wanted.push_back(&member.header_offset);
  if (wanted.empty()) return {};
  while (extra.size() >= 4) {
    const uint16_t id = load_le<uint16_t>(extra.data());
    const size_t bytes = load_le<uint16_t>(extra.data() + 2);
    if (bytes > extra.size() - 4) break;
    if (id == 1) {
      if (bytes < wanted.size() * 8) break;
      for (size_t i = 0; i < wanted.size(); ++i)
        *wanted[i] = load_le<uint64_t>(extra.data() + 4 + i * 8);
      return {};
    }
    extra = extra.subspan(4 + bytes);
  }
  return fail(ErrorCode::kCorruption, "member {}: its zip64 field is missing or short",
              member.name);
}

Result<ZipDirectory> read_zip_directory(ByteSource& source) {
  End end = FB_TRY(find_end(source));
  FB_TRY(find_end64(source, end));
  if (end.directory_bytes > end.offset)
    return fail(ErrorCode::kCorruption, "the directory claims {} bytes; {} precede its end",
                end.directory_bytes, end.offset);
  ZipDirectory directory{.members = {}, .offset = end.offset - end.directory_bytes};
  if (end.directory_offset > directory.offset)
    return fail(ErrorCode::kCorruption, "the directory claims to start at byte {}, not {}",
                end.directory_offset, directory.offset);
  if (end.entry_count > end.directory_bytes / kCentralBytes)
    return fail(ErrorCode::kCorruption, "the directory claims {} members in {} bytes",
                end.entry_count, end.directory_bytes);
  const uint64_t shift = directory.offset - end.directory_offset;  // bytes put before the archive
  auto bytes = FB_TRY(source.at(directory.offset, end.directory_bytes));
  uint64_t offset = directory.offset;
  for (uint64_t i = 0; i < end.entry_count; ++i) {
    size_t used = 0;
    ZipMember member = FB_TRY(parse_central(bytes, offset, used));
    if (member.header_offset >= directory.offset ||
        member.header_offset + shift + kZipLocalBytes > directory.offset)
      return fail(ErrorCode::kCorruption, "member {}: starts at byte {}, past the directory",
                  member.name, member.header_offset);
    member.header_offset += shift;
    directory.members.push_back(std::move(member));
    bytes = bytes.subspan(used);
    offset += used;
  }
  return directory;
}

Status check_zip_member(const ZipMember& member) {
  if ((member.flags & kZipFlagEncrypted) != 0)
    return fail(ErrorCode::kUnsupported, "member {}: is encrypted", member.name);
  if (member.method != kZipStored && member.method != kZipDeflated)
    return fail(ErrorCode::kUnsupported,
                "member {}: compression method {} (only 0 stored and 8 deflated are read)",
                member.name, member.method);
  if (member.method == kZipStored && member.bytes != member.compressed_bytes)
    return fail(ErrorCode::kCorruption,
                "member {}: stored, but {} bytes in the file and {} outside", member.name,
                member.compressed_bytes, member.bytes);
  if (member.bytes > kZipMemberBytesMax)
    return fail(ErrorCode::kUnsupported, "member {}: {} bytes exceed the limit of {}", member.name,
                member.bytes, kZipMemberBytesMax);
  if (member.method == kZipDeflated && member.bytes / kDeflateRatioMax > member.compressed_bytes)
    return fail(ErrorCode::kCorruption, "member {}: claims {} bytes from {} deflated ones",
                member.name, member.bytes, member.compressed_bytes);
  return {};
}

Result<uint64_t> locate_zip_member(ByteSource& source, const ZipMember& member) {
  FB_TRY(check_zip_member(member));
  const auto header = FB_TRY(source.at(member.header_offset, kZipLocalBytes));
  if (load_le<uint32_t>(header.data()) != kZipLocalSignature)
    return fail(ErrorCode::kCorruption, "member {}: no local header at byte {}", member.name,
                member.header_offset);
  const uint64_t data_offset = member.header_offset + kZipLocalBytes +
                               load_le<uint16_t>(header.data() + 26) +
                               load_le<uint16_t>(header.data() + 28);
  if (data_offset > source.size() || member.compressed_bytes > source.size() - data_offset)
    return fail(ErrorCode::kCorruption, "member {}: truncated at byte {}; its data would end at {}",
                member.name, source.size(), data_offset + member.compressed_bytes);
  return data_offset;
}

Error zip_crc_error(const ZipMember& member, uint32_t found) {
  return fail(ErrorCode::kCorruption, "member {}: CRC {:#010x}, expected {:#010x}", member.name,
              found, member.crc);
}

Result<std::span<const std::byte>> read_zip_member(std::span<const std::byte> file,
                                                   const ZipMember& member, Inflater& inflater,
                                                   ByteBuffer& scratch) {
  SpanSource source(file);
  const uint64_t offset = FB_TRY(locate_zip_member(source, member));
  std::span<const std::byte> data = file.subspan(offset, member.compressed_bytes);
  if (member.method == kZipDeflated) {
    const std::span<std::byte> whole = scratch.reserve(member.bytes);
    std::span<std::byte> room = whole;
    std::span<const std::byte> input = data;
    inflater.begin(DeflateWrapper::kNone);
    FB_TRY(inflater.run(input, room).context("member " + member.name));
    if (!inflater.is_done()) {
      // All output is there but the end mark may still be unread: one byte of room tells overflow.
      std::byte extra{};
      std::span<std::byte> spare(&extra, 1);
      FB_TRY(inflater.run(input, spare).context("member " + member.name));
      if (spare.empty())
        return fail(ErrorCode::kCorruption, "member {}: inflates to more than its {} bytes",
                    member.name, member.bytes);
    }
    if (!inflater.is_done())
      return fail(ErrorCode::kCorruption, "member {}: its deflate stream has no end", member.name);
    if (!room.empty() || !input.empty() || !inflater.unread().empty())
      return fail(ErrorCode::kCorruption, "member {}: inflates to {} bytes, not {}", member.name,
                  whole.size() - room.size(), member.bytes);
    data = whole;
  }
  const uint32_t crc = base::crc32(0, data);
  if (crc != member.crc) return zip_crc_error(member, crc);
  return data;
}

}  // namespace forebay::formats
