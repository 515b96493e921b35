// Makes JPEGs like photographs: brightness that varies at every scale, as 1 / frequency, with
// shapes of even colour on top. Noise would compress and decode like nothing that is trained on.
#pragma once

#include <cstdint>
#include <vector>

namespace forebay::bench {

// 500 x 375 pixels at quality 94 are about 100 KB.
std::vector<unsigned char> make_picture(int width, int height, int quality, uint64_t seed);

}  // namespace forebay::bench
