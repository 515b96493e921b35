// Whether a file's layout agrees with itself and lies inside its file. What foreign bytes or a
// cache made of it is checked here once, so that nobody after this has to.
//
// Functions are safe to call from any thread.
#pragma once

#include <cstdint>

#include "forebay/result.h"
#include "formats/format.h"

namespace forebay::dataset {

// Bytes that have to be read for `block`. The layout has passed check_layout().
uint64_t block_bytes(const formats::Block& block);

// kCorruption with the cause: extents outside the file, blocks that are empty or leave gaps, counts
// that contradict each other.
Status check_layout(const formats::FileIndex& layout, uint64_t file_bytes);

}  // namespace forebay::dataset
