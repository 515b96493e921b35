// Which bytes of files are in the page cache, and getting them out.
//
// All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "forebay/result.h"

namespace forebay::sys {

struct CachedBytes {
  uint64_t file_bytes = 0;
  uint64_t cached_bytes = 0;
};

// By cachestat(2), else by mincore(2). kUnsupported when the kernel will not tell this user.
Result<CachedBytes> cached_bytes(const std::string& path);

// Writes dirty pages back, then drops the file's pages. Pages that other processes map stay: ask
// cached_bytes afterwards. kUnsupported on file systems that live in memory.
Status evict_from_page_cache(const std::string& path);

// Reads the file once so that it is in the page cache. Returns its bytes.
Result<uint64_t> load_into_page_cache(const std::string& path);

// tmpfs and ramfs: reads never reach a device.
bool is_memory_file_system(const std::string& path);
// "ext4", "xfs", "tmpfs", "nfs", ... or a hexadecimal number.
std::string file_system_name(const std::string& path);

}  // namespace forebay::sys
