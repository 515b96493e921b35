// Where the lines of a plain CSV file lie, found in one pass over it.
//
// Functions are safe to call from any thread; a source belongs to one.
#pragma once

#include "formats/byte_source.h"
#include "formats/csv_parser.h"
#include "formats/format.h"

namespace forebay::formats {

// An extent for each line of numbers, line end included; a file of one line is kWholeFile. Fields
// are not looked at: reading a line does. A last line without an end becomes an extent too, and
// reading it says so. Holds 16 bytes a line, and a window of the file.
Result<FileIndex> index_csv_rows(ByteSource& source);

// What index_csv_rows noted in FileIndex::detail.
Result<CsvLayout> csv_layout_of(const FileIndex& index);

}  // namespace forebay::formats
