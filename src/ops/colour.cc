#include "ops/colour.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/render.h"

namespace forebay::ops {
namespace {

using Table = std::array<uint8_t, 256>;

uint8_t clamped(float value) {
  return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

// base + (value - base) * factor, its fraction cut off.
uint8_t blend(float base, float value, float factor) {
  return clamped(base + factor * (value - base));
}

Table blend_table(float base, float factor) {
  Table table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = blend(base, static_cast<float>(i), factor);
  return table;
}

template <class Body>
void for_each_pixel(const ColourPixels& pixels, const Body& body) {
  for (uint32_t y = 0; y < pixels.height; ++y) {
    auto* at = reinterpret_cast<uint8_t*>(pixels.data + y * pixels.row_bytes);
    for (uint32_t x = 0; x < pixels.width; ++x, at += pixels.step) body(at);
  }
}

void map_values(const ColourPixels& pixels, const Table& table) {
  const uint32_t colours = pixels.channels >= 3 ? 3 : 1;
  for_each_pixel(pixels, [&](uint8_t* pixel) {
    for (uint32_t c = 0; c < colours; ++c) pixel[c] = table[pixel[c]];
  });
}

uint8_t grey_of(const ColourPixels& pixels, const uint8_t* pixel) {
  return pixels.channels >= 3 ? luma(pixel[0], pixel[1], pixel[2]) : pixel[0];
}

float mean_grey(const ColourPixels& pixels) {
  uint64_t sum = 0;
  for_each_pixel(pixels, [&](const uint8_t* pixel) { sum += grey_of(pixels, pixel); });
  const double mean =
      static_cast<double>(sum) / (static_cast<double>(pixels.width) * pixels.height);
  return std::floor(static_cast<float>(mean + 0.5));
}

void saturate(const ColourPixels& pixels, float factor) {
  for_each_pixel(pixels, [&](uint8_t* pixel) {
    const auto grey = static_cast<float>(luma(pixel[0], pixel[1], pixel[2]));
    for (int c = 0; c < 3; ++c) pixel[c] = blend(grey, static_cast<float>(pixel[c]), factor);
  });
}

// Hue and saturation in 255ths, as Pillow's HSV has them.
struct Hsv {
  uint8_t h, s, v;
};

Hsv to_hsv(const uint8_t* rgb) {
  const uint8_t high = std::max({rgb[0], rgb[1], rgb[2]});
  const uint8_t low = std::min({rgb[0], rgb[1], rgb[2]});
  if (high == low) return {0, 0, high};
  // Single precision where Pillow has it: a hue on the edge of two 255ths falls on the same side.
  const auto spread = static_cast<float>(high - low);
  const auto distance = [&](int c) -> double { return static_cast<float>(high - rgb[c]) / spread; };
  float sixths;
  if (rgb[0] == high)
    sixths = static_cast<float>(distance(2)) - static_cast<float>(distance(1));
  else if (rgb[1] == high)
    sixths = static_cast<float>(2.0 + distance(0) - distance(2));
  else
    sixths = static_cast<float>(4.0 + distance(1) - distance(0));
  const auto hue = static_cast<float>(std::fmod(static_cast<double>(sixths) / 6.0 + 1.0, 1.0));
  const float saturation = spread / static_cast<float>(high);
  return {static_cast<uint8_t>(static_cast<double>(hue) * 255.0),
          static_cast<uint8_t>(static_cast<double>(saturation) * 255.0), high};
}

void from_hsv(const Hsv& hsv, uint8_t* rgb) {
  if (hsv.s == 0) {
    rgb[0] = rgb[1] = rgb[2] = hsv.v;
    return;
  }
  const double sixths = hsv.h * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  const double f = static_cast<float>(sixths - sector);
  const double s = static_cast<float>(hsv.s / 255.0);
  const auto level = [&](double share) {
    return clamped(static_cast<float>(std::round(hsv.v * (1.0 - share))));
  };
  const uint8_t p = level(s), q = level(s * f), t = level(s * (1.0 - f));
  switch (sector % 6) {
    case 0:
      rgb[0] = hsv.v, rgb[1] = t, rgb[2] = p;
      break;
    case 1:
      rgb[0] = q, rgb[1] = hsv.v, rgb[2] = p;
      break;
    case 2:
      rgb[0] = p, rgb[1] = hsv.v, rgb[2] = t;
      break;
    case 3:
      rgb[0] = p, rgb[1] = q, rgb[2] = hsv.v;
      break;
    case 4:
      rgb[0] = t, rgb[1] = p, rgb[2] = hsv.v;
      break;
    default:
      rgb[0] = hsv.v, rgb[1] = p, rgb[2] = q;
      break;
  }
}

void turn_hue(const ColourPixels& pixels, double turns) {
  const auto shift = static_cast<uint8_t>(static_cast<int>(turns * 255));  // wraps
  for_each_pixel(pixels, [&](uint8_t* pixel) {
    Hsv hsv = to_hsv(pixel);
    hsv.h = static_cast<uint8_t>(hsv.h + shift);
    from_hsv(hsv, pixel);
  });
}

}  // namespace

void change_colours(const ColourPixels& pixels, ColourChange change, double amount) {
  const auto factor = static_cast<float>(amount);
  const bool has_colour = pixels.channels >= 3;
  switch (change) {
    case ColourChange::kBrightness:
      return map_values(pixels, blend_table(0, factor));
    case ColourChange::kContrast:
      return map_values(pixels, blend_table(mean_grey(pixels), factor));
    case ColourChange::kSaturation:
      if (has_colour) saturate(pixels, factor);
      return;
    case ColourChange::kHue:
      if (has_colour) turn_hue(pixels, amount);
      return;
  }
}

}  // namespace forebay::ops
