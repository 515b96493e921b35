// The ops of an image classifier on images in memory: what a loader adds to decoding them.
#pragma once

#include <vector>

namespace forebay::bench {

// Part of an image decoded, resized to 224 x 224, mirrored, normalised, channels first, float32. A
// runner for each thread, into one reused slot. Returns the images done.
double ops_loop(const std::vector<std::vector<unsigned char>>& images, int threads);

}  // namespace forebay::bench
