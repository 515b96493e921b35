// Resizing as Pillow does it: separable filters, rows first, rounded to the element type in
// between.
//
// Pure functions of their arguments; safe from any thread. Which instructions do it depends on the
// processor, the result does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/format.h"

namespace forebay::ops {

enum class Filter { kNearest, kBilinear, kArea, kBicubic, kLanczos };
std::optional<Filter> filter_from_name(std::string_view name);
inline constexpr std::string_view kFilterNames = "nearest, bilinear, area, bicubic, lanczos";

// Pixels in memory, row by row; `step` elements from one pixel to the next.
struct ImageView {
  const std::byte* data = nullptr;
  size_t row_bytes = 0;
  uint32_t width = 0, height = 0;
  uint32_t channels = 3, step = 3;
  formats::ElementType type = formats::ElementType::kU8;
};

// One axis: [from, to) of the input becomes `size` pixels, of which [first, first + count) are
// wanted. Nothing outside [floor(from), ceil(to)) is looked at, as if it had been cut off before.
struct Axis {
  double from = 0, to = 0;
  uint32_t size = 0, first = 0, count = 0;
};

// Which inputs each output pixel takes, and how much of each.
class Taps {
 public:
  void make(const Axis& axis, Filter filter, bool antialias);

  uint32_t outputs() const { return static_cast<uint32_t>(first_.size()); }
  uint32_t width() const { return width_; }  // per output, padded with zeros to a multiple of 4
  uint32_t begin() const { return begin_; }  // of all inputs that are looked at
  uint32_t end() const { return end_; }
  uint32_t first(uint32_t output) const { return first_[output]; }
  uint32_t count(uint32_t output) const { return counts_[output]; }
  // Of rows, the first pass.
  const int16_t* weights(uint32_t output) const { return &weights_[size_t{output} * width_]; }
  // The same for instructions that take four: pairs of them, each pair four times.
  const int16_t* spread(uint32_t output) const { return &spread_[size_t{output} * width_ * 4]; }
  // Of columns, the second pass: multiples of 2^-kFineShift, as Pillow has them. What the first
  // pass rounds otherwise than Pillow, right between two levels, must not be doubled by another
  // such.
  static constexpr int kFineShift = 22, kPartBits = 15;
  const int32_t* fine(uint32_t output) const { return &fine_[size_t{output} * width_]; }
  // The same in two parts: of two weights the kPartBits lower bits, then what is above.
  const int16_t* fine_parts(uint32_t output) const {
    return &fine_parts_[size_t{output} * width_ * 2];
  }
  const float* reals(uint32_t output) const { return &reals_[size_t{output} * width_]; }
  int shift() const { return shift_; }  // weights are multiples of 2^-shift

 private:
  void quantise();

  uint32_t width_ = 0, begin_ = 0, end_ = 0;
  int shift_ = 0;
  std::vector<uint32_t> first_, counts_;
  std::vector<int16_t> weights_, spread_, fine_parts_;
  std::vector<int32_t> fine_;
  std::vector<float> reals_;
};

// One row of bytes; `row` is pixel `origin` of the input. Up to 16 bytes behind the last pixel that
// is used are read.
void resample_row(const Taps& taps, const std::byte* row, uint32_t origin, uint32_t step,
                  std::byte* out);
// One row of bytes out of rows `row_bytes` apart; `rows` is row `origin` of the input.
void resample_column(const Taps& taps, uint32_t output, const std::byte* rows, size_t row_bytes,
                     uint32_t origin, size_t bytes, std::byte* out);

// uint16 and float32 images, without instructions of their own. `rows` holds the result of the
// first pass: vertical.end() - vertical.begin() rows of horizontal.outputs() pixels.
void resample_wide(const ImageView& image, const Taps& horizontal, const Taps& vertical,
                   std::span<std::byte> rows, std::span<std::byte> out);

// Whether rows and columns use AVX2 here; a test compares both.
bool has_fast_resample();
void use_fast_resample(bool is_wanted);  // tests only

}  // namespace forebay::ops
