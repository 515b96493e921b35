#include "pictures.h"

#include <turbojpeg.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/random.h"

namespace forebay::bench {
namespace {

size_t cell_index(int y, int x, int columns) {
  return static_cast<size_t>(y) * static_cast<size_t>(columns) + static_cast<size_t>(x);
}

// Random values on a coarse grid, smoothly joined; `cell` pixels from one to the next.
void add_octave(std::vector<float>& plane, int width, int height, int cell, float amplitude,
                base::Random& random) {
  const int columns = width / cell + 2, rows = height / cell + 2;
  std::vector<float> grid(static_cast<size_t>(columns) * static_cast<size_t>(rows));
  for (float& value : grid) value = static_cast<float>(random.normal()) * amplitude;
  const auto at = [&](int y, int x) { return grid[cell_index(y, x, columns)]; };
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const float fy = static_cast<float>(y % cell) / static_cast<float>(cell);
      const float fx = static_cast<float>(x % cell) / static_cast<float>(cell);
      const int cy = y / cell, cx = x / cell;
      const float top = at(cy, cx) + (at(cy, cx + 1) - at(cy, cx)) * fx;
      const float bottom = at(cy + 1, cx) + (at(cy + 1, cx + 1) - at(cy + 1, cx)) * fx;
      plane[cell_index(y, x, width)] += top + (bottom - top) * fy;
    }
}

std::vector<float> fractal(int width, int height, float amplitude, base::Random& random) {
  std::vector<float> plane(static_cast<size_t>(width) * static_cast<size_t>(height));
  for (int cell = 128; cell >= 1; cell /= 2)
    add_octave(plane, width, height, cell,
               amplitude * std::pow(static_cast<float>(cell) / 128.0f, 0.27f), random);
  return plane;
}

}  // namespace

std::vector<unsigned char> make_picture(int width, int height, int quality, uint64_t seed) {
  base::Random random(seed);
  const std::vector<float> light = fractal(width, height, 30, random);
  std::vector<unsigned char> pixels(light.size() * 3);
  for (size_t c = 0; c < 3; ++c) {
    const std::vector<float> tint = fractal(width, height, 9, random);
    for (size_t i = 0; i < light.size(); ++i)
      pixels[i * 3 + c] =
          static_cast<unsigned char>(std::clamp(120 + light[i] + tint[i], 0.0f, 255.0f));
  }
  for (int shape = 0; shape < 6; ++shape) {
    const auto below = [&](int bound) {
      return static_cast<int>(random.below(static_cast<uint64_t>(bound)));
    };
    const int cx = below(width), cy = below(height), radius = 10 + below(width / 8);
    unsigned char colour[3];
    for (unsigned char& value : colour) value = static_cast<unsigned char>(random.below(256));
    for (int y = std::max(0, cy - radius); y < std::min(height, cy + radius); ++y)
      for (int x = std::max(0, cx - radius); x < std::min(width, cx + radius); ++x)
        if ((x - cx) * (x - cx) + (y - cy) * (y - cy) < radius * radius)
          std::copy_n(colour, 3, &pixels[static_cast<size_t>(y * width + x) * 3]);
  }
  tjhandle handle = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  FB_CHECK(tjCompress2(handle, pixels.data(), width, 0, height, TJPF_RGB, &out, &size, TJSAMP_420,
                       quality, 0) == 0);
  std::vector<unsigned char> result(out, out + size);
  tjFree(out);
  tjDestroy(handle);
  return result;
}

}  // namespace forebay::bench
