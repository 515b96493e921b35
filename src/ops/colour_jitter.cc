// colour_jitter: torchvision's ColorJitter on uint8 pixels, with Pillow's rounding.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "ops/builtin_ops.h"
#include "ops/colour.h"

namespace forebay::ops {
namespace {

struct Range {
  double low = 1, high = 1;
};

class ColourJitter : public Step {
 public:
  ColourJitter(std::vector<std::string> fields, const std::array<Range, 4>& ranges)
      : fields_(std::move(fields)), ranges_(ranges) {}

  Status run(SampleState& state) const override {
    for (const std::string& field : fields_) {
      Image* image = FB_TRY(state.image(field));
      if (image->type() != formats::ElementType::kU8 || !image->points.empty())
        return fail(ErrorCode::kInvalidArgument, "field '{}' holds {}; colours are uint8", field,
                    formats::element_name(image->type()));
      FB_TRY(settle_pixels(state.workspace(), *image));
      base::Random random = state.random();
      jitter(*image, random);
    }
    return {};
  }
  bool needs_pixels() const override { return true; }

 private:
  // The four changes in a random order, each by a random amount.
  void jitter(const Image& image, base::Random& random) const {
    std::array<size_t, 4> order{0, 1, 2, 3};
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    std::array<double, 4> amounts;
    for (size_t i = 0; i < amounts.size(); ++i)
      amounts[i] = ranges_[i].low + (ranges_[i].high - ranges_[i].low) * random.uniform();
    const ImageView& view = image.pixels;
    // These pixels are the workspace's own: settle_pixels saw to it.
    const ColourPixels pixels{const_cast<std::byte*>(view.data),
                              view.row_bytes,
                              view.width,
                              view.height,
                              view.channels,
                              view.step};
    for (const size_t change : order) {
      const auto colour_change = static_cast<ColourChange>(change);
      if (amounts[change] == (colour_change == ColourChange::kHue ? 0 : 1)) continue;
      change_colours(pixels, colour_change, amounts[change]);
    }
  }

  std::vector<std::string> fields_;
  std::array<Range, 4> ranges_;  // in the order of ColourChange
};

// One number: 1 - n to 1 + n (hue: -n to n); two: from, to.
Result<Range> range_of(const Arguments& arguments, std::string_view name, double middle,
                       double low_min, double high_max) {
  const auto& numbers = arguments.numbers(name);
  Range range{middle, middle};
  if (numbers.size() == 1 && numbers[0] >= 0)
    range = {std::max(low_min, middle - numbers[0]), middle + numbers[0]};
  else if (numbers.size() == 2)
    range = {numbers[0], numbers[1]};
  else if (!numbers.empty())
    return fail(ErrorCode::kInvalidArgument, "{}: one number from 0, or low and high", name);
  if (range.low < low_min || range.high > high_max || range.low > range.high)
    return fail(ErrorCode::kInvalidArgument, "{}: {} <= low <= high <= {}", name, low_min,
                high_max);
  return range;
}

constexpr std::array kArguments{
    OpArgument{"brightness", "numbers", "0", "n: a factor of 1 - n to 1 + n; or low, high"},
    OpArgument{"contrast", "numbers", "0", "the same"},
    OpArgument{"saturation", "numbers", "0", "the same"},
    OpArgument{"hue", "numbers", "0", "n: -n to n of a whole turn, at most 0.5; or low, high"},
    OpArgument{"field", "texts", "image", "the images; several get the same random numbers"},
};

Result<std::unique_ptr<Step>> make(const Arguments& arguments, const DecodeOptions&) {
  constexpr double kFactorMax = 1000;
  std::array<Range, 4> ranges;
  ranges[0] = FB_TRY(range_of(arguments, "brightness", 1, 0, kFactorMax));
  ranges[1] = FB_TRY(range_of(arguments, "contrast", 1, 0, kFactorMax));
  ranges[2] = FB_TRY(range_of(arguments, "saturation", 1, 0, kFactorMax));
  ranges[3] = FB_TRY(range_of(arguments, "hue", 0, -0.5, 0.5));
  return make_step<ColourJitter>(arguments.texts("field"), ranges);
}

}  // namespace

const OpKind kColourJitter{
    .info = {"colour_jitter",
             "Random brightness, contrast, saturation and hue, in random order: torchvision's "
             "ColorJitter.",
             kArguments, true},
    .make = make};

}  // namespace forebay::ops
