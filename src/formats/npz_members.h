// Which member of an npz file is the sample, and how many samples there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "formats/byte_buffer.h"
#include "formats/npy_header.h"
#include "formats/zip.h"

namespace forebay::formats {

bool is_array_member(std::string_view name);  // ends in ".npy"

// Position of x.npy, else of the first array member; kCorruption when there is none.
Result<size_t> sample_member(std::span<const ZipMember> members);

// Header of an array member, from as few bytes as that takes. `data_offset` is that of the member.
Result<NpyHeader> read_member_header(ByteSource& source, const ZipMember& member,
                                     uint64_t data_offset, Inflater& inflater);

// Reads every member of `bytes` and checks all CRCs and array headers: the judgement that the check
// in passing must agree with.
Status check_npz(std::span<const std::byte> bytes);

}  // namespace forebay::formats
