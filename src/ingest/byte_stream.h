// The bytes of a foreign trace, front to back: from a file, from memory, and out of gzip.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "forebay/result.h"

namespace forebay::ingest {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills the front of `out`; bytes given, fewer only at the end. kCorruption when what is packed
  // cannot be unpacked further; what came before stays good.
  virtual Result<size_t> read(std::span<std::byte> out) = 0;
  // Bytes taken from the file so far, packed ones where it is packed.
  virtual uint64_t bytes_taken() const = 0;
};

// Unpacks gzip, of one or many members, when the bytes begin as gzip does.
Result<std::unique_ptr<ByteStream>> open_file_stream(const std::string& path);
// The bytes must outlive the stream.
std::unique_ptr<ByteStream> open_memory_stream(std::span<const std::byte> bytes);

}  // namespace forebay::ingest
