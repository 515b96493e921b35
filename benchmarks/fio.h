// What a disk can do past the page cache, by fio's word.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure.h"

namespace forebay::bench {

bool is_fio_there();

// One run of fio with these options and --output-format=json; ends the program when it fails.
// `key` is "read" or "write".
Sample run_fio(const std::string& options, const std::string& key);

// The fastest of several settings, each tried once, and its options.
struct Best {
  Sample sample;
  std::string setting;
};
// `bytes` into new files of `folder`, in order, O_DIRECT, with fsync at the end. Removes the
// folder.
Best best_fio_write(const std::string& folder, uint64_t bytes);
// All of `files`, one after the other, in order, O_DIRECT.
Best best_fio_read(const std::vector<std::string>& files);

}  // namespace forebay::bench
