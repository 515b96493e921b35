// Changes of colour on uint8 pixels, in place: what Pillow's ImageEnhance and a turn of the hue do.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forebay::ops {

struct ColourPixels {
  std::byte* data = nullptr;
  size_t row_bytes = 0;
  uint32_t width = 0, height = 0;
  uint32_t channels = 3;  // 1, 2: grey (and alpha); 3, 4: RGB (and alpha)
  uint32_t step = 3;      // bytes from one pixel to the next
};

enum class ColourChange { kBrightness, kContrast, kSaturation, kHue };

// kHue: `amount` turns, -0.5 to 0.5; the others a factor from 0, where 1 changes nothing. Grey
// images have neither saturation nor hue; alpha stays.
void change_colours(const ColourPixels& pixels, ColourChange change, double amount);

}  // namespace forebay::ops
