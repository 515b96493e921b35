#include "hdf5_files.h"

#include <hdf5.h>

#include <array>
#include <cmath>
#include <fstream>

#include "base/check.h"
#include "base/random.h"

namespace forebay::bench {
namespace {

std::vector<float> make_field(const Hdf5Image& image) {
  base::Random random(image.seed);
  std::vector<float> values;
  values.reserve(image.side * image.side);
  const double phase = 10 * random.uniform();
  for (uint64_t y = 0; y < image.side; ++y) {
    for (uint64_t x = 0; x < image.side; ++x) {
      const double smooth = std::sin(static_cast<double>(x) / 37 + phase) *
                            std::cos(static_cast<double>(y) / 53 - phase);
      const double value = 1000 + 400 * smooth + 10 * random.normal();
      values.push_back(static_cast<float>(std::round(value * 4) / 4));
    }
  }
  return values;
}

}  // namespace

void write_hdf5_image(const std::string& path, const Hdf5Image& image) {
  constexpr unsigned kLevel = 4;
  const std::vector<float> values = make_field(image);
  const std::array<hsize_t, 3> shape{1, image.side, image.side};
  const std::array<hsize_t, 3> chunk{1, image.chunk_side, image.chunk_side};
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(3, shape.data(), nullptr);
  const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
  FB_CHECK(file >= 0 && space >= 0 && plan >= 0);
  FB_CHECK(H5Pset_chunk(plan, 3, chunk.data()) >= 0 && H5Pset_deflate(plan, kLevel) >= 0);
  const hid_t data =
      H5Dcreate2(file, "records", H5T_IEEE_F32LE, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  FB_CHECK(data >= 0);
  FB_CHECK(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  FB_CHECK(H5Dclose(data) >= 0 && H5Pclose(plan) >= 0 && H5Sclose(space) >= 0);
  FB_CHECK(H5Fclose(file) >= 0);
}

std::vector<std::vector<unsigned char>> read_parts(const std::vector<FilePart>& parts) {
  std::vector<std::vector<unsigned char>> all;
  for (const FilePart& part : parts) {
    std::ifstream file(part.path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(part.offset));
    all.emplace_back(part.length);
    file.read(reinterpret_cast<char*>(all.back().data()),
              static_cast<std::streamsize>(part.length));
    FB_CHECK(file.good());
  }
  return all;
}

}  // namespace forebay::bench
