// The plain loops that the loader is measured against: nothing but system calls and library calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forebay::bench {

enum class Check { kNone, kCrc32 };

// `threads` threads take the files in turn: open, pread in pieces into one reused buffer, close,
// and optionally the CRC32 of each piece while it is hot. With `kept_bytes` the pieces go through
// as much memory, one after the other: whoever hands bytes on cannot reuse them at once. Returns
// the bytes read.
double pread_loop(const std::vector<std::string>& files, int threads, uint64_t piece_bytes,
                  Check check, uint64_t kept_bytes = 0);

// The same for small files, whole into one reused buffer. Returns the number of files.
double open_read_close_loop(const std::vector<std::string>& files, int threads);

// libjpeg-turbo on bytes in memory, one handle per thread, into one reused buffer. Returns the
// number of images.
double jpeg_loop(const std::vector<std::vector<unsigned char>>& images, int threads);

// igzip on zlib streams in memory, one state and one reused buffer per thread, room for
// `bytes_max` each. Returns the compressed bytes.
double inflate_loop(const std::vector<std::vector<unsigned char>>& streams, size_t bytes_max,
                    int threads);

// write() of 1 MiB blocks into new files of the given sizes, one after the other, synced each when
// `sync`. Returns the bytes.
double write_loop(const std::string& folder, const std::vector<uint64_t>& sizes, bool sync);

}  // namespace forebay::bench
