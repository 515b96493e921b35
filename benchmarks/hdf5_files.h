// HDF5 files whose content compresses as measured data does, made by the HDF5 library itself.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forebay::bench {

struct Hdf5Image {
  uint64_t side = 1024;       // of one square image of float32, which is one sample
  uint64_t chunk_side = 256;  // gzip level 4 of each chunk alone, as h5py and DLIO ask for
  uint64_t seed = 0;
};

// A smooth field with noise, in steps of a quarter, like the values of a converter of a few more
// than ten bits: gzip halves it. Ends the program when the file cannot be written.
void write_hdf5_image(const std::string& path, const Hdf5Image& image);

// Bytes `length` at `offset` of a file, for each extent: compressed chunks for floors.
struct FilePart {
  std::string path;
  uint64_t offset = 0, length = 0;
};
std::vector<std::vector<unsigned char>> read_parts(const std::vector<FilePart>& parts);

}  // namespace forebay::bench
