// What npy and npz share: one array per file, one or many samples on its last axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/format.h"
#include "formats/npy_header.h"

namespace forebay::formats {

// Parses the array file `bytes` and checks that it holds the whole array and nothing else.
Result<NpyHeader> parse_npy(std::span<const std::byte> bytes);

// How `sample_count` samples lie in an array whose file starts at `file_offset`: extents when each
// is contiguous (Fortran order, or one dimension), else together. kInvalidArgument when the last
// axis does not have `sample_count` entries.
Result<FileIndex> index_array(const NpyHeader& header, uint64_t file_offset, uint64_t sample_count);

// Sample `sample_in_file` of an array that lies in `data`.
Record array_record(const ArrayLayout& layout, std::span<const std::byte> data,
                    const FileIndex& index, uint64_t sample_in_file);

// The record of one extent: checks its length against the layout that index_array noted.
Result<Record> extent_record(std::span<const std::byte> bytes, const FileIndex& index);

}  // namespace forebay::formats
