// Brings a data set's pages into the state a run asks for, and says how many bytes devices
// delivered.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "dataset/index.h"
#include "emulate/result.h"
#include "forebay/result.h"

namespace forebay::emulate {

struct CacheState {
  uint64_t files = 0, bytes = 0;
  uint64_t cached_bytes = 0;  // after the change
  bool is_known = true;       // false: the kernel would not tell
};

// Drops every file's pages and checks that they went. kUnsupported on file systems in memory.
Result<CacheState> make_cold(const dataset::Index& index, const std::string& root,
                             std::stop_token stop);
// Reads every file once.
Result<CacheState> make_warm(const dataset::Index& index, const std::string& root,
                             std::stop_token stop);

// "" when /proc/self/io accounts device reads of the file system that holds `root`; else why not.
std::string why_device_bytes_unknown(const std::string& root, bool store_is_local);

}  // namespace forebay::emulate
