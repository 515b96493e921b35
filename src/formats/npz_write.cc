#include "formats/npz_write.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/crc.h"
#include "base/error.h"
#include "formats/deflate.h"
#include "formats/little_endian.h"
#include "formats/npy_header.h"
#include "formats/payload.h"
#include "formats/zip.h"

namespace forebay::formats {
namespace {

constexpr uint16_t kVersion = 20;
constexpr uint16_t kVersionZip64 = 45;
constexpr uint16_t kMadeOnUnix = 3 << 8;
constexpr uint16_t kDate1980 = 0x21;  // 1980-01-01, as numpy stamps its members
constexpr uint32_t kOwnerReadWrite = 0600u << 16;
constexpr size_t kNameBytes = 5;  // "x.npy"
constexpr size_t kZip64ExtraBytes = 20;
constexpr uint64_t kLocalTotal = kZipLocalBytes + kNameBytes + kZip64ExtraBytes;

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

 private:
  std::vector<std::byte> bytes_;
};

// One array member and how its bytes are made.
struct MemberPlan {
  std::string name;
  std::string header;  // of the array
  uint64_t data_bytes = 0;
  bool is_payload = false;  // else zeros
};

std::vector<MemberPlan> plan_members(const FileSpec& spec) {
  auto shape = record_shape(spec);
  shape.push_back(spec.sample_count);
  MemberPlan x{.name = "x.npy",
               .header = make_npy_header({.type = spec.type, .shape = std::move(shape)}),
               .data_bytes = formats::payload_bytes(spec),
               .is_payload = true};
  MemberPlan y{.name = "y.npy",
               .header = make_npy_header({.type = ElementType::kI64, .shape = {spec.sample_count}}),
               .data_bytes = spec.sample_count * 8};
  return {std::move(x), std::move(y)};
}

// Makes the member's bytes, deflated when asked, and hands them to `sink`; fills crc and sizes.
Status produce(const MemberPlan& plan, const FileSpec& spec, const ByteSink& sink,
               ZipMember& member) {
  member.crc = 0;
  member.bytes = 0;
  member.compressed_bytes = 0;
  std::optional<Deflater> deflater;
  if (spec.compression != Compression::kNone) deflater.emplace(DeflateWrapper::kNone);
  const ByteSink counted = [&](std::span<const std::byte> piece) {
    member.compressed_bytes += piece.size();
    return sink(piece);
  };
  const ByteSink plain = [&](std::span<const std::byte> piece) -> Status {
    member.crc = base::crc32(member.crc, piece);
    member.bytes += piece.size();
    return deflater ? deflater->run(piece, false, counted) : counted(piece);
  };
  FB_TRY(plain(std::as_bytes(std::span(plan.header))));
  if (plan.is_payload) {
    Payload payload(spec);
    FB_TRY(payload.produce(plan.data_bytes, plain));
  } else {
    const std::vector<std::byte> zeros(std::min<uint64_t>(plan.data_bytes, 64 * 1024));
    for (uint64_t left = plan.data_bytes; left > 0;) {
      const size_t n = std::min<uint64_t>(left, zeros.size());
      FB_TRY(plain({zeros.data(), n}));
      left -= n;
    }
  }
  return deflater ? deflater->run({}, true, counted) : Status();
}

constexpr uint64_t kMax32 = 0xffffffff;

uint32_t capped(uint64_t value) {
  return static_cast<uint32_t>(value < kMax32 ? value : kMax32);
}

bool is_large(const ZipMember& member) {
  return member.bytes >= kMax32 || member.compressed_bytes >= kMax32;
}

// The zip64 field is always there, used or not, as numpy asks zipfile for.
BytesOut local_header(const ZipMember& member) {
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
  return out;
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

BytesOut directory(std::span<const ZipMember> members, uint64_t offset) {
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
  return out;
}

}  // namespace

Status write_npz(storage::Writer& writer, bool can_patch, const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  const ByteSink append = [&](std::span<const std::byte> piece) { return writer.append(piece); };
  const ByteSink drop = [](std::span<const std::byte>) { return Status(); };
  std::vector<ZipMember> members;
  uint64_t offset = 0;
  for (const MemberPlan& plan : plan_members(spec)) {
    ZipMember member{.name = plan.name,
                     .method = spec.compression != Compression::kNone ? kZipDeflated : kZipStored,
                     .header_offset = offset};
    if (!can_patch) FB_TRY(produce(plan, spec, drop, member));
    FB_TRY(writer.append(local_header(member).bytes()));
    FB_TRY(produce(plan, spec, append, member));
    if (can_patch) FB_TRY(writer.patch(member.header_offset, local_header(member).bytes()));
    offset += kLocalTotal + member.compressed_bytes;
    members.push_back(std::move(member));
  }
  return writer.append(directory(members, offset).bytes());
}

uint64_t npz_bytes(const FileSpec& spec) {
  if (!check_spec(spec).ok()) return UINT64_MAX;
  std::vector<ZipMember> members;
  uint64_t offset = 0;
  for (const MemberPlan& plan : plan_members(spec)) {
    const uint64_t bytes = plan.header.size() + plan.data_bytes;
    const uint64_t in_file =
        spec.compression != Compression::kNone ? Deflater::bytes_max(bytes) : bytes;
    members.push_back(
        {.name = plan.name, .compressed_bytes = in_file, .bytes = bytes, .header_offset = offset});
    offset += kLocalTotal + in_file;
  }
  return offset + directory(members, offset).bytes().size();
}

}  // namespace forebay::formats
