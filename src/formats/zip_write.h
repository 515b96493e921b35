// Headers of zip files that are made, as Python's zipfile makes them for numpy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/zip.h"

namespace forebay::formats {

// In front of the member's data. It always has room for 64-bit sizes.
std::vector<std::byte> zip_local_header(const ZipMember& member);
uint64_t zip_local_bytes(const ZipMember& member);  // the size of that

// The central directory and the end record. `offset` is where it starts in the file.
std::vector<std::byte> zip_directory(std::span<const ZipMember> members, uint64_t offset);

}  // namespace forebay::formats
