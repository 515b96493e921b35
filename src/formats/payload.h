// Random contents of generated files: the same spec gives the same bytes, in pieces of cache size.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/random.h"
#include "formats/deflate.h"
#include "formats/format.h"

namespace forebay::formats {

// Dimensions of one record: `shape`, or rows x columns elements.
std::vector<uint64_t> record_shape(const FileSpec& spec);
// Bytes of one record, and of all records of the file. UINT64_MAX when they overflow 2^62.
uint64_t record_bytes(const FileSpec& spec);
uint64_t payload_bytes(const FileSpec& spec);

// kInvalidArgument for specs that no format can write: no samples, more than 2^62 bytes.
Status check_spec(const FileSpec& spec);

class Payload {
 public:
  explicit Payload(const FileSpec& spec);

  // The next `bytes` bytes in pieces of at most 128 KiB. Floats are finite, booleans are 0 or 1.
  Status produce(uint64_t bytes, const ByteSink& sink);

 private:
  void constrain(std::span<std::byte> piece) const;

  base::Random random_;
  uint64_t mask_;  // of each 64-bit word; keeps values valid for the type
  std::vector<std::byte> buffer_;
};

}  // namespace forebay::formats
