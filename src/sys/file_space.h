// Space of a file that is being written: taken ahead, and given back.
//
// Safe from any thread. Numbers that come back are 0 or -errno.
#pragma once

#include <cstdint>

#include "forebay/result.h"

namespace forebay::sys {

// Takes space for `bytes` at `offset` and leaves the file's size as it is: what is written there
// later does not find the disk full. -EOPNOTSUPP where the file system cannot.
int reserve_space(int fd, uint64_t offset, uint64_t bytes);
// Makes the file end at `size` and gives back the space behind it.
int cut_file(int fd, uint64_t size);

// Whether an error of error_from_errno() is that a disk, or a quota of it, is used up.
bool is_disk_full(const Error& error);

}  // namespace forebay::sys
