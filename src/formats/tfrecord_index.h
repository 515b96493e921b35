// Where the records of a TFRecord file lie: from the side file when it is plausible, else by
// scanning.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/byte_source.h"
#include "formats/format.h"

namespace forebay::formats {

Result<FileIndex> index_tfrecord(storage::Store& store, const storage::FileInfo& file,
                                 const FormatOptions& options);

// Extents of all records, payloads not read. What follows a damaged header cannot be found: it
// becomes one last extent, and reading that says why. An error when not even the first header is
// right.
Result<ExtentList> scan_frames(ByteSource& source);

// "train/a.tfrecord" -> "index/train/a.tfrecord.idx"; below other folders, "x/train/a" ->
// "x/index/train/a.idx".
std::string tfrecord_index_path(std::string_view path);

// Extents of a side file, lines "offset size", framing included. Empty when it is not plausible:
// records must follow each other from byte 0 to `file_bytes`.
ExtentList parse_tfrecord_index(std::string_view text, uint64_t file_bytes);

}  // namespace forebay::formats
