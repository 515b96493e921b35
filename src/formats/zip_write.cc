#include "formats/zip_write.h"

#include <string_view>
#include <type_traits>
#include <utility>

#include "formats/little_endian.h"

namespace forebay::formats {
namespace {

constexpr uint16_t kVersion = 20;
constexpr uint16_t kVersionZip64 = 45;
constexpr uint16_t kMadeOnUnix = 3 << 8;
constexpr uint16_t kDate1980 = 0x21;  // 1980-01-01, as numpy stamps its members
constexpr uint32_t kOwnerReadWrite = 0600u << 16;
constexpr size_t kZip64ExtraBytes = 20;

class BytesOut {
 public:
  template <class T>
  BytesOut& put(std::type_identity_t<T> value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    store_le<T>(bytes_.data() + at, value);
    return *this;
  }
  BytesOut& text(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

constexpr uint64_t kMax32 = 0xffffffff;

uint32_t capped(uint64_t value) {
  return static_cast<uint32_t>(value < kMax32 ? value : kMax32);
}

bool is_large(const ZipMember& member) {
  return member.bytes >= kMax32 || member.compressed_bytes >= kMax32;
}

// Sizes and offset go to a zip64 field only where 32 bits do not hold them, as zipfile does.
void central_header(const ZipMember& member, BytesOut& out) {
  BytesOut extra;
  const bool has_large_sizes = is_large(member);
  if (has_large_sizes) extra.put<uint64_t>(member.bytes).put<uint64_t>(member.compressed_bytes);
  if (member.header_offset >= kMax32) extra.put<uint64_t>(member.header_offset);
  const size_t extra_bytes = extra.bytes().empty() ? 0 : extra.bytes().size() + 4;
  const uint16_t version = extra_bytes > 0 ? kVersionZip64 : kVersion;
  out.put<uint32_t>(kZipCentralSignature)
      .put<uint16_t>(kMadeOnUnix | version)
      .put<uint16_t>(version)
      .put<uint16_t>(0)
      .put<uint16_t>(member.method)
      .put<uint16_t>(0)
      .put<uint16_t>(kDate1980)
      .put<uint32_t>(member.crc)
      .put<uint32_t>(has_large_sizes ? 0xffffffff : capped(member.compressed_bytes))
      .put<uint32_t>(has_large_sizes ? 0xffffffff : capped(member.bytes))
      .put<uint16_t>(static_cast<uint16_t>(member.name.size()))
      .put<uint16_t>(static_cast<uint16_t>(extra_bytes))
      .put<uint16_t>(0)
      .put<uint16_t>(0)
      .put<uint16_t>(0)
      .put<uint32_t>(kOwnerReadWrite)
      .put<uint32_t>(capped(member.header_offset))
      .text(member.name);
  if (extra_bytes == 0) return;
  out.put<uint16_t>(1).put<uint16_t>(static_cast<uint16_t>(extra_bytes - 4));
  out.text({reinterpret_cast<const char*>(extra.bytes().data()), extra.bytes().size()});
}

}  // namespace

uint64_t zip_local_bytes(const ZipMember& member) {
  return kZipLocalBytes + member.name.size() + kZip64ExtraBytes;
}

// The zip64 field is always there, used or not, as numpy asks zipfile for.
std::vector<std::byte> zip_local_header(const ZipMember& member) {
  BytesOut out;
  const bool needs_zip64 = is_large(member);
  out.put<uint32_t>(kZipLocalSignature)
      .put<uint16_t>(needs_zip64 ? kVersionZip64 : kVersion)
      .put<uint16_t>(0)
      .put<uint16_t>(member.method)
      .put<uint16_t>(0)
      .put<uint16_t>(kDate1980)
      .put<uint32_t>(member.crc)
      .put<uint32_t>(needs_zip64 ? 0xffffffff : capped(member.compressed_bytes))
      .put<uint32_t>(needs_zip64 ? 0xffffffff : capped(member.bytes))
      .put<uint16_t>(static_cast<uint16_t>(member.name.size()))
      .put<uint16_t>(kZip64ExtraBytes)
      .text(member.name)
      .put<uint16_t>(1)
      .put<uint16_t>(16)
      .put<uint64_t>(member.bytes)
      .put<uint64_t>(member.compressed_bytes);
  return out.take();
}

std::vector<std::byte> zip_directory(std::span<const ZipMember> members, uint64_t offset) {
  BytesOut out;
  for (const ZipMember& member : members) central_header(member, out);
  const uint64_t bytes = out.bytes().size();
  const bool is_far = offset >= 0xffffffff;
  if (is_far) {
    out.put<uint32_t>(kZip64EndSignature)
        .put<uint64_t>(44)
        .put<uint16_t>(kVersionZip64)
        .put<uint16_t>(kVersionZip64)
        .put<uint32_t>(0)
        .put<uint32_t>(0)
        .put<uint64_t>(members.size())
        .put<uint64_t>(members.size())
        .put<uint64_t>(bytes)
        .put<uint64_t>(offset)
        .put<uint32_t>(kZip64LocatorSignature)
        .put<uint32_t>(0)
        .put<uint64_t>(offset + bytes)
        .put<uint32_t>(1);
  }
  out.put<uint32_t>(kZipEndSignature)
      .put<uint16_t>(0)
      .put<uint16_t>(0)
      .put<uint16_t>(static_cast<uint16_t>(members.size()))
      .put<uint16_t>(static_cast<uint16_t>(members.size()))
      .put<uint32_t>(static_cast<uint32_t>(bytes))
      .put<uint32_t>(is_far ? 0xffffffff : static_cast<uint32_t>(offset))
      .put<uint16_t>(0);
  return out.take();
}

}  // namespace forebay::formats
