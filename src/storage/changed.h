// The words for a file that is not what the reader was told.
#pragma once

#include <cstdint>

#include "storage/store.h"

namespace forebay::storage {

// kCorruption "changed since it was indexed: was N bytes, is now M" for a read to the end, and the
// bytes that are missing for one inside the file.
Error changed_error(const Read& read, uint64_t size_now);

// True for a path that stays inside the store: relative, not empty, no "..".
bool is_inside(std::string_view path);
// kInvalidArgument that says so.
Error outside_error(std::string_view path);

}  // namespace forebay::storage
