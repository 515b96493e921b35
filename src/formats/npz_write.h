// Writes npz files laid out as numpy.savez lays them out: x.npy with the samples, y.npy with
// labels.
#pragma once

#include <cstdint>

#include "formats/format.h"

namespace forebay::formats {

// Without can_patch the contents are made twice: once for the CRC that precedes them.
Status write_npz(storage::Writer& writer, bool can_patch, const FileSpec& spec);

// Exact unless compressed.
uint64_t npz_bytes(const FileSpec& spec);

}  // namespace forebay::formats
