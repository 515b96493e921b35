// Writes HDF5 files in the layouts of DLIO's variants.
//
// Any thread. The library is locked while it lays out metadata, not while data are made.
#pragma once

#include <cstdint>

#include "formats/format.h"

namespace forebay::formats {

// As Format::write and Format::estimate_bytes. Memory: metadata and one chunk.
Status write_hdf5(storage::Writer& writer, bool can_patch, const FileSpec& spec);
uint64_t hdf5_bytes(const FileSpec& spec);

}  // namespace forebay::formats
