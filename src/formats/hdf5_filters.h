// The filters of HDF5 chunks, undone by our own code: deflate, lzf, shuffle, fletcher32.
//
// Functions are pure. A Hdf5Unfilter belongs to one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forebay/result.h"
#include "formats/byte_buffer.h"
#include "formats/inflate.h"

namespace forebay::formats {

// Numbers of the registry of HDF5 filters.
enum class Hdf5Filter : uint32_t { kDeflate = 1, kShuffle = 2, kFletcher32 = 3, kLzf = 32000 };

struct Hdf5FilterStep {
  Hdf5Filter filter = Hdf5Filter::kDeflate;
  uint32_t element_bytes = 0;  // shuffle only
  bool operator==(const Hdf5FilterStep&) const = default;
};

// "szip" or "filter 32001": the filters that are refused, for messages.
std::string hdf5_filter_name(uint32_t number);

// Fills `out` exactly or says why not; reads no byte outside `in`.
Status unpack_lzf(std::span<const std::byte> in, std::span<std::byte> out);
// Bytes written to `out`, or nothing when they would not be fewer than out.size().
std::optional<size_t> pack_lzf(std::span<const std::byte> in, std::span<std::byte> out);

// Byte planes back to elements; what is left beyond whole elements is copied. Sizes are equal.
void unshuffle(std::span<const std::byte> in, size_t element_bytes, std::span<std::byte> out);

uint32_t fletcher32(std::span<const std::byte> bytes);

class Hdf5Unfilter {
 public:
  // Undoes `steps`, which are in the order of writing; bit i of `skipped` says that step i was left
  // out for this chunk. Fills `out` exactly. kCorruption without a file name otherwise.
  Status run(std::span<const Hdf5FilterStep> steps, uint32_t skipped,
             std::span<const std::byte> bytes, std::span<std::byte> out);

 private:
  Result<std::span<const std::byte>> undo(const Hdf5FilterStep& step,
                                          std::span<const std::byte> bytes,
                                          std::span<std::byte> out);
  Status inflate(std::span<const std::byte> bytes, std::span<std::byte> out);

  Inflater inflater_;
  std::array<ByteBuffer, 2> scratch_;
};

}  // namespace forebay::formats
