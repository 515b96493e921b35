// The parts of the zip format that npz files use: directory, zip64, stored and deflated members.
//
// The central directory is authoritative. Every length is checked against the file before it is
// used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/byte_buffer.h"
#include "formats/byte_source.h"
#include "formats/inflate.h"

namespace forebay::formats {

constexpr uint16_t kZipStored = 0;
constexpr uint16_t kZipDeflated = 8;
constexpr uint16_t kZipFlagEncrypted = 1;
constexpr uint16_t kZipFlagDescriptor = 8;  // sizes and CRC follow the data

constexpr uint32_t kZipLocalSignature = 0x04034b50;
constexpr uint32_t kZipCentralSignature = 0x02014b50;
constexpr uint32_t kZipDescriptorSignature = 0x08074b50;
constexpr uint32_t kZipEndSignature = 0x06054b50;
constexpr uint32_t kZip64EndSignature = 0x06064b50;
constexpr uint32_t kZip64LocatorSignature = 0x07064b50;
constexpr size_t kZipLocalBytes = 30;           // fixed part of a local header
constexpr size_t kZipEndBytesMax = 22 + 65535;  // end record with the longest comment

// A larger member is refused before anything is allocated. Deflate cannot exceed 1032:1, so a
// member that declares more than that is refused too.
constexpr uint64_t kZipMemberBytesMax = uint64_t{64} << 30;
constexpr uint64_t kDeflateRatioMax = 1032;

struct ZipMember {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t compressed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t header_offset = 0;
};

struct ZipDirectory {
  std::vector<ZipMember> members;
  uint64_t offset = 0;  // of the central directory in the file
};

// kCorruption when there is none ("truncated at byte N" or "not a zip file") or it contradicts
// itself.
Result<ZipDirectory> read_zip_directory(ByteSource& source);

// Sizes and offset of one header that are 0xffffffff are taken from its zip64 extra field, in the
// order size, compressed size, offset. kCorruption when the field is absent or short.
Status apply_zip64(std::span<const std::byte> extra, ZipMember& member, bool has_offset);

// Where the member's data starts. Refuses encrypted members and unknown methods by name.
Result<uint64_t> locate_zip_member(ByteSource& source, const ZipMember& member);

// The member's bytes, CRC checked: a part of `file` when stored, else inflated into `scratch`.
Result<std::span<const std::byte>> read_zip_member(std::span<const std::byte> file,
                                                   const ZipMember& member, Inflater& inflater,
                                                   ByteBuffer& scratch);

// kUnsupported when the member cannot be read: encryption, method, size beyond the limits above.
Status check_zip_member(const ZipMember& member);

// "member x.npy: CRC 0x0000abcd, expected 0x12345678"
Error zip_crc_error(const ZipMember& member, uint32_t found);

}  // namespace forebay::formats
