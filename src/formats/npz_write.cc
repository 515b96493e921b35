#include "formats/npz_write.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/crc.h"
#include "base/error.h"
#include "formats/deflate.h"
#include "formats/npy_header.h"
#include "formats/payload.h"
#include "formats/zip.h"
#include "formats/zip_write.h"

namespace forebay::formats {
namespace {

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
    FB_TRY(writer.append(zip_local_header(member)));
    FB_TRY(produce(plan, spec, append, member));
    if (can_patch) FB_TRY(writer.patch(member.header_offset, zip_local_header(member)));
    offset += zip_local_bytes(member) + member.compressed_bytes;
    members.push_back(std::move(member));
  }
  return writer.append(zip_directory(members, offset));
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
    offset += zip_local_bytes(members.back()) + in_file;
  }
  return offset + zip_directory(members, offset).size();
}

}  // namespace forebay::formats
