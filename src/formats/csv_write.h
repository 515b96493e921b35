// Writes CSV files as DLIO does: one line of numbers for each sample, in the dialect's layout.
#pragma once

#include <cstdint>

#include "formats/format.h"

namespace forebay::formats {

// kUnsupported for complex numbers.
Status write_csv(storage::Writer& writer, bool can_patch, const FileSpec& spec);

// An upper bound: random numbers have any number of digits.
uint64_t csv_bytes_max(const FileSpec& spec);

}  // namespace forebay::formats
