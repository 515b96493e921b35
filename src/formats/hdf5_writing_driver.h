// A file that the HDF5 library lays out while nothing of its data passes through it.
//
// The image keeps what the library writes of metadata, and notes where data go. Call with a
// Hdf5Lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "forebay/result.h"
#include "formats/format.h"
#include "formats/hdf5_library.h"

namespace forebay::formats {

class Hdf5Image {
 public:
  void put(uint64_t offset, std::span<const std::byte> bytes);
  void get(uint64_t offset, std::span<std::byte> out) const;  // zeros where nothing was put

  // Pieces by offset; they do not overlap.
  const std::map<uint64_t, std::vector<std::byte>>& pieces() const { return pieces_; }

  uint64_t file_bytes = 0;       // as far as the library has laid it out
  std::optional<Extent> data{};  // the last data that it wrote

 private:
  std::map<uint64_t, std::vector<std::byte>> pieces_;
};

// A new file in `image`, which must outlive it.
Result<Hdf5Handle> create_hdf5(Hdf5Image& image, Dialect dialect);

}  // namespace forebay::formats
