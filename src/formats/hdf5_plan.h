// What a generated HDF5 file is to hold: its data sets, their shapes and chunks.
//
// Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "forebay/result.h"
#include "formats/format.h"
#include "formats/hdf5_layout.h"

namespace forebay::formats {

struct Hdf5Plan {
  std::vector<std::string> names;  // of the data sets of records
  Hdf5Dataset dataset;             // they are all alike
  std::vector<uint64_t> max_shape;

  uint64_t chunk_count() const;  // of one data set; 0 when contiguous
  std::vector<uint64_t> chunk_corner(uint64_t chunk) const;
  // Zeros where a chunk sticks out of the shape.
  void clear_outside(uint64_t chunk, std::span<std::byte> bytes) const;
};

// kInvalidArgument, naming the key, for what no HDF5 file can have.
Result<Hdf5Plan> plan_hdf5(const FileSpec& spec);

}  // namespace forebay::formats
