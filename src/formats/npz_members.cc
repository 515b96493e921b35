#include "formats/npz_members.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "formats/array_records.h"

namespace forebay::formats {

bool is_array_member(std::string_view name) {
  return name.size() >= 4 && name.substr(name.size() - 4) == ".npy";
}

Result<size_t> sample_member(std::span<const ZipMember> members) {
  size_t first = members.size();
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].name == "x.npy") return i;
    if (first == members.size() && is_array_member(members[i].name)) first = i;
  }
  if (first == members.size())
    return fail(ErrorCode::kCorruption, "no array among its {} members", members.size());
  return first;
}

namespace {

Result<NpyHeader> read_stored_header(ByteSource& source, const ZipMember& member,
                                     uint64_t data_offset) {
  const uint64_t preamble = std::min<uint64_t>(member.bytes, kNpyPreambleBytes);
  const auto first = FB_TRY(source.at(data_offset, preamble));
  const uint64_t head_bytes = FB_TRY(npy_data_offset(first));
  if (head_bytes > member.bytes)
    return fail(ErrorCode::kCorruption, "npy header: truncated at byte {}", member.bytes);
  const auto head = FB_TRY(source.at(data_offset, head_bytes));
  return parse_npy_header(head);
}

// Inflates from the front until the header is complete.
Result<NpyHeader> read_deflated_header(ByteSource& source, const ZipMember& member,
                                       uint64_t data_offset, Inflater& inflater) {
  constexpr uint64_t kInputBytes = 4096;
  std::vector<std::byte> head(std::min<uint64_t>(member.bytes, kNpyPreambleBytes));
  size_t filled = 0;
  uint64_t used = 0;
  std::vector<std::byte> kept;
  std::span<const std::byte> input;
  inflater.begin(DeflateWrapper::kNone);
  for (int part = 0; part < 2; ++part) {  // the preamble, then the whole header
    while (filled < head.size()) {
      if (input.empty() && used < member.compressed_bytes) {
        const uint64_t n = std::min(kInputBytes, member.compressed_bytes - used);
        const auto more = FB_TRY(source.at(data_offset + used, n));
        kept.assign(more.begin(), more.end());
        input = kept;
        used += n;
      }
      std::span<std::byte> room = std::span(head).subspan(filled);
      const size_t before = room.size();
      FB_TRY(inflater.run(input, room));
      filled += before - room.size();
      if (room.size() == before && (inflater.is_done() || used == member.compressed_bytes))
        return fail(ErrorCode::kCorruption, "npy header: truncated at byte {}", filled);
    }
    if (part == 1) break;
    const uint64_t head_bytes = FB_TRY(npy_data_offset(head));
    if (head_bytes > member.bytes)
      return fail(ErrorCode::kCorruption, "npy header: truncated at byte {}", member.bytes);
    head.resize(std::max<uint64_t>(head_bytes, head.size()));
  }
  return parse_npy_header(head);
}

}  // namespace

Result<NpyHeader> read_member_header(ByteSource& source, const ZipMember& member,
                                     uint64_t data_offset, Inflater& inflater) {
  auto header = member.method == kZipStored
                    ? read_stored_header(source, member, data_offset)
                    : read_deflated_header(source, member, data_offset, inflater);
  return std::move(header).context("member " + member.name);
}

Status check_npz(std::span<const std::byte> bytes) {
  SpanSource source(bytes);
  const ZipDirectory directory = FB_TRY(read_zip_directory(source));
  const size_t sample = FB_TRY(sample_member(directory.members));
  Inflater inflater;
  ByteBuffer scratch;
  for (size_t i = 0; i < directory.members.size(); ++i) {
    const ZipMember& member = directory.members[i];
    const auto data = FB_TRY(read_zip_member(bytes, member, inflater, scratch));
    if (!is_array_member(member.name)) continue;
    auto header = parse_npy(data);
    // A label array of objects does no harm: nobody reads it.
    if (!header.ok() && header.error().code == ErrorCode::kUnsupported && i != sample) continue;
    FB_TRY(std::move(header).context("member " + member.name));
  }
  return {};
}

}  // namespace forebay::formats
