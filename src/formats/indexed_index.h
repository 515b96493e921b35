// The two index files beside an indexed_binary file: where its samples are.
//
//   <file>.off.idx   u64 little-endian: where each sample starts
//   <file>.sz.idx    u64 little-endian: how many bytes it has
//
// Functions are safe to call from any thread; sources belong to one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/byte_source.h"
#include "formats/format.h"

namespace forebay::formats {

// Their paths: offsets, then sizes.
std::vector<std::string> indexed_side_paths(std::string_view path);

// Samples lie back to back, so their places are the sums of the sizes. Offsets are compared with
// them: DLIO starts again at 0 with each of its buffers, so an offset may also count from the last
// that was 0. `samples` > 0: how many are wanted; DLIO may have written more. kCorruption naming
// sample and cause when sizes, offsets and the length of the data disagree.
Result<FileIndex> index_indexed(ByteSource& offsets, ByteSource& sizes, uint64_t data_bytes,
                                uint64_t samples);

Status write_indexed_side(storage::Writer& writer, const FileSpec& spec, size_t which);

}  // namespace forebay::formats
