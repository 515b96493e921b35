// The parts of the parquet module that need Arrow, behind headers that do not.
//
// Functions without state; safe to call from any thread. None of them throws.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "formats/parquet_layout.h"

namespace forebay::formats {

// Reads the footer alone; one Block per row group that has rows.
Result<FileIndex> index_parquet(storage::Store& store, const storage::FileInfo& file,
                                const FormatOptions& options);

// The row group `layout.groups[group]` from the bytes of its chunks, in the order of columns.
Result<std::shared_ptr<const DecodedBlock>> decode_parquet_group(std::string_view path,
                                                                 std::span<const std::byte> bytes,
                                                                 const ParquetLayout& layout,
                                                                 size_t group);

Status write_parquet(storage::Writer& writer, const FileSpec& spec);

// What the exception in flight says, as an Error that begins with `where`. Only inside a catch.
Error parquet_error(std::string_view where);

}  // namespace forebay::formats
