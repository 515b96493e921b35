// Ops that choose which pixels remain: resize, crops, flips. Sizes, fallbacks and rounding are
// torchvision's.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "ops/builtin_ops.h"
#include "ops/convert.h"

namespace forebay::ops {
namespace {

constexpr uint32_t kSideMax = 1u << 20;

constexpr OpArgument kField{"field", "texts", "image",
                            "the images; several get the same random numbers"};
constexpr OpArgument kFilter{"filter", "text", "bilinear",
                             "nearest, bilinear, area, bicubic, lanczos: those of Pillow, where "
                             "area is BOX"};
constexpr OpArgument kAntialias{"antialias", "flag", "true",
                                "each pixel sees all those it stands for, as in Pillow; false: "
                                "only the nearest ones"};

struct Size {
  uint32_t height = 0, width = 0;  // width 0: the shorter side is `height` pixels
};

// "size": one number, or height and width.
Result<Size> size_of(const Arguments& arguments, bool is_square, const DecodeOptions& decode) {
  const auto& numbers = arguments.numbers("size");
  if (numbers.empty() || numbers.size() > 2)
    return fail(ErrorCode::kInvalidArgument, "size: one number, or height and width");
  for (const double n : numbers)
    if (n < 1 || n > kSideMax || n != std::floor(n))
      return fail(ErrorCode::kInvalidArgument, "size {}: whole, 1 to {}", n, kSideMax);
  // A picture whose shorter side is given has at least its square of pixels.
  if (const double pixels = numbers[0] * numbers.back();
      pixels > static_cast<double>(decode.pixels_max))
    return fail(ErrorCode::kInvalidArgument, "size {} x {}: the limit is {} pixels", numbers[0],
                numbers.back(), decode.pixels_max);
  const auto height = static_cast<uint32_t>(numbers[0]);
  if (numbers.size() == 2) return Size{height, static_cast<uint32_t>(numbers[1])};
  return Size{height, is_square ? height : 0};
}

struct Sampling {
  Filter filter = Filter::kBilinear;
  bool antialias = true;
};

Result<Sampling> sampling_of(const Arguments& arguments) {
  const auto filter = filter_from_name(arguments.text("filter"));
  if (!filter)
    return fail(ErrorCode::kInvalidArgument, "filter '{}': one of {}", arguments.text("filter"),
                kFilterNames);
  const bool antialias = arguments.flag("antialias");
  if (!antialias && (*filter == Filter::kArea || *filter == Filter::kLanczos))
    return fail(ErrorCode::kInvalidArgument, "filter {} is nothing without antialias",
                arguments.text("filter"));
  return Sampling{*filter, antialias};
}

// An op on each of its images.
class ImageStep : public Step {
 public:
  explicit ImageStep(const Arguments& arguments) : fields_(arguments.texts("field")) {}
  Status run(SampleState& state) const override {
    for (const std::string& field : fields_) {
      Image* image = FB_TRY(state.image(field));
      // Each image sees the op's numbers from their beginning: images of one size stay in step.
      base::Random random = state.random();
      FB_TRY(change(state.workspace(), *image, random));
    }
    return {};
  }
  virtual Status change(Workspace& workspace, Image& image, base::Random& random) const = 0;

 private:
  std::vector<std::string> fields_;
};

// --- resize ---

class ResizeStep : public ImageStep {
 public:
  ResizeStep(const Arguments& arguments, Size size, Sampling sampling)
      : ImageStep(arguments), size_(size), sampling_(sampling) {}

  Status change(Workspace& workspace, Image& image, base::Random& /*random*/) const override {
    Resize resize{size_.width, size_.height, sampling_.filter, sampling_.antialias};
    if (size_.width == 0) {
      const uint64_t width = image.width(), height = image.height(), side = size_.height;
      const uint64_t longer = side * std::max(width, height) / std::min(width, height);
      if (longer > kSideMax)
        return fail(ErrorCode::kUnsupported, "{} x {} pixels with a shorter side of {}", width,
                    height, side);
      resize.width = static_cast<uint32_t>(width <= height ? side : longer);
      resize.height = static_cast<uint32_t>(width <= height ? longer : side);
    }
    return resize_image(workspace, image, resize);
  }

 private:
  Size size_;
  Sampling sampling_;
};

constexpr std::array kResizeArguments{
    OpArgument{"size", "numbers", "",
               "height and width, or one number: the length of the shorter side"},
    kFilter, kAntialias, kField};

Result<std::unique_ptr<Step>> make_resize(const Arguments& arguments, const DecodeOptions& decode) {
  const Size size = FB_TRY(size_of(arguments, false, decode));
  const Sampling sampling = FB_TRY(sampling_of(arguments));
  return make_step<ResizeStep>(arguments, size, sampling);
}

// --- random_resized_crop ---

struct Range {
  double low = 0, high = 0;
};

Result<Range> range_of(const Arguments& arguments, std::string_view name, double high_max) {
  const auto& numbers = arguments.numbers(name);
  if (numbers.size() != 2 || numbers[0] <= 0 || numbers[1] < numbers[0] || numbers[1] > high_max)
    return fail(ErrorCode::kInvalidArgument, "{}: two numbers, 0 < low <= high <= {}", name,
                high_max);
  return Range{numbers[0], numbers[1]};
}

double between(base::Random& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

class RandomResizedCrop : public ImageStep {
 public:
  RandomResizedCrop(const Arguments& arguments, Size size, Sampling sampling, Range scale,
                    Range ratio)
      : ImageStep(arguments), size_(size), sampling_(sampling), scale_(scale), ratio_(ratio) {}

  Status change(Workspace& workspace, Image& image, base::Random& random) const override {
    FB_TRY(crop_image(workspace, image, choose(image.width(), image.height(), random)));
    return resize_image(workspace, image,
                        {size_.width, size_.height, sampling_.filter, sampling_.antialias});
  }

 private:
  Rectangle choose(uint32_t width, uint32_t height, base::Random& random) const {
    const double area = static_cast<double>(width) * height;
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double wanted = area * between(random, scale_.low, scale_.high);
      const double aspect = std::exp(between(random, std::log(ratio_.low), std::log(ratio_.high)));
      const double w = std::nearbyint(std::sqrt(wanted * aspect));
      const double h = std::nearbyint(std::sqrt(wanted / aspect));
      if (w < 1 || w > width || h < 1 || h > height) continue;
      Rectangle crop{.width = static_cast<uint32_t>(w), .height = static_cast<uint32_t>(h)};
      crop.y = static_cast<uint32_t>(random.below(height - crop.height + 1));
      crop.x = static_cast<uint32_t>(random.below(width - crop.width + 1));
      return crop;
    }
    return fallback(width, height);
  }

  // The largest crop in the middle whose ratio is allowed.
  Rectangle fallback(uint32_t width, uint32_t height) const {
    const double aspect = static_cast<double>(width) / height;
    Rectangle crop{0, 0, width, height};
    if (aspect < ratio_.low)
      crop.height = static_cast<uint32_t>(
          std::clamp(std::nearbyint(width / ratio_.low), 1.0, static_cast<double>(height)));
    else if (aspect > ratio_.high)
      crop.width = static_cast<uint32_t>(
          std::clamp(std::nearbyint(height * ratio_.high), 1.0, static_cast<double>(width)));
    crop.x = (width - crop.width) / 2;
    crop.y = (height - crop.height) / 2;
    return crop;
  }

  Size size_;
  Sampling sampling_;
  Range scale_, ratio_;
};

constexpr std::array kRandomResizedCropArguments{
    OpArgument{"size", "numbers", "", "height and width of the result, or one number for both"},
    OpArgument{"scale", "numbers", "0.08,1", "share of the area that the crop has: low, high"},
    OpArgument{"ratio", "numbers", "0.75,1.3333333333333333",
               "width / height of the crop: low, high"},
    kFilter,
    kAntialias,
    kField};

Result<std::unique_ptr<Step>> make_random_resized_crop(const Arguments& arguments,
                                                       const DecodeOptions& decode) {
  const Size size = FB_TRY(size_of(arguments, true, decode));
  const Sampling sampling = FB_TRY(sampling_of(arguments));
  const Range scale = FB_TRY(range_of(arguments, "scale", 1));
  const Range ratio = FB_TRY(range_of(arguments, "ratio", 1000));
  return make_step<RandomResizedCrop>(arguments, size, sampling, scale, ratio);
}

// --- center_crop ---

class CenterCrop : public ImageStep {
 public:
  CenterCrop(const Arguments& arguments, Size size) : ImageStep(arguments), size_(size) {}

  Status change(Workspace& workspace, Image& image, base::Random& /*random*/) const override {
    const uint32_t missing_x = size_.width > image.width() ? size_.width - image.width() : 0;
    const uint32_t missing_y = size_.height > image.height() ? size_.height - image.height() : 0;
    if (missing_x > 0 || missing_y > 0)
      FB_TRY(pad_image(workspace, image,
                       {.left = missing_x / 2,
                        .top = missing_y / 2,
                        .right = (missing_x + 1) / 2,
                        .bottom = (missing_y + 1) / 2},
                       0));
    // Halves go to the even neighbour, as Python rounds.
    const auto middle = [](uint32_t all, uint32_t part) {
      return static_cast<uint32_t>(std::nearbyint((all - part) / 2.0));
    };
    return crop_image(workspace, image,
                      {middle(image.width(), size_.width), middle(image.height(), size_.height),
                       size_.width, size_.height});
  }

 private:
  Size size_;
};

constexpr std::array kCenterCropArguments{
    OpArgument{"size", "numbers", "",
               "height and width, or one number for both; zeros surround a smaller image"},
    kField};

Result<std::unique_ptr<Step>> make_center_crop(const Arguments& arguments,
                                               const DecodeOptions& decode) {
  const Size size = FB_TRY(size_of(arguments, true, decode));
  return make_step<CenterCrop>(arguments, size);
}

// --- random_crop ---

class RandomCrop : public ImageStep {
 public:
  RandomCrop(const Arguments& arguments, Size size, uint32_t padding)
      : ImageStep(arguments),
        size_(size),
        padding_(padding),
        pads_if_needed_(arguments.flag("pad_if_needed")),
        value_(arguments.number("value")) {}

  Status change(Workspace& workspace, Image& image, base::Random& random) const override {
    Border border{padding_, padding_, padding_, padding_};
    if (pads_if_needed_) {
      const auto missing = [&](uint32_t wanted, uint32_t side) {
        return wanted > side + 2 * padding_ ? wanted - side - 2 * padding_ : 0;
      };
      border.left += missing(size_.width, image.width());
      border.right += missing(size_.width, image.width());
      border.top += missing(size_.height, image.height());
      border.bottom += missing(size_.height, image.height());
    }
    if (border.left > 0 || border.top > 0) FB_TRY(pad_image(workspace, image, border, value_));
    if (image.width() < size_.width || image.height() < size_.height)
      return fail(ErrorCode::kInvalidArgument,
                  "a crop of {} x {} from an image of {} x {} (width x height); pad_if_needed "
                  "helps",
                  size_.width, size_.height, image.width(), image.height());
    Rectangle crop{.width = size_.width, .height = size_.height};
    crop.y = static_cast<uint32_t>(random.below(image.height() - crop.height + 1));
    crop.x = static_cast<uint32_t>(random.below(image.width() - crop.width + 1));
    return crop_image(workspace, image, crop);
  }

 private:
  Size size_;
  uint32_t padding_;
  bool pads_if_needed_;
  double value_;
};

constexpr std::array kRandomCropArguments{
    OpArgument{"size", "numbers", "", "height and width, or one number for both"},
    OpArgument{"padding", "int", "0", "pixels added on every side before"},
    OpArgument{"pad_if_needed", "flag", "false",
               "add what a smaller image lacks, on both sides; else it is an error"},
    OpArgument{"value", "number", "0", "of added pixels"}, kField};

Result<std::unique_ptr<Step>> make_random_crop(const Arguments& arguments,
                                               const DecodeOptions& decode) {
  const Size size = FB_TRY(size_of(arguments, true, decode));
  const int64_t padding = arguments.integer("padding");
  if (padding < 0 || padding > kSideMax)
    return fail(ErrorCode::kInvalidArgument, "padding {}: 0 to {}", padding, kSideMax);
  if (4 * static_cast<uint64_t>(padding * padding) > decode.pixels_max)
    return fail(ErrorCode::kInvalidArgument, "padding {}: the limit is {} pixels", padding,
                decode.pixels_max);
  return make_step<RandomCrop>(arguments, size, static_cast<uint32_t>(padding));
}

// --- flip ---

class Flip : public ImageStep {
 public:
  explicit Flip(const Arguments& arguments)
      : ImageStep(arguments),
        probability_(arguments.number("p")),
        is_vertical_(arguments.flag("vertical")) {}

  Status change(Workspace& /*workspace*/, Image& image, base::Random& random) const override {
    if (random.uniform() >= probability_) return {};
    bool& flip = is_vertical_ ? image.flip_y : image.flip_x;
    flip = !flip;
    return {};
  }

 private:
  double probability_;
  bool is_vertical_;
};

constexpr std::array kFlipArguments{
    OpArgument{"p", "number", "0.5", "probability, 0 to 1"},
    OpArgument{"vertical", "flag", "false", "upside down instead of left to right"}, kField};

Result<std::unique_ptr<Step>> make_flip(const Arguments& arguments, const DecodeOptions&) {
  const double p = arguments.number("p");
  if (p < 0 || p > 1) return fail(ErrorCode::kInvalidArgument, "p {}: 0 to 1", p);
  return make_step<Flip>(arguments);
}

}  // namespace

const OpKind kResize{.info = {"resize", "Makes an image larger or smaller.", kResizeArguments},
                     .make = make_resize};
const OpKind kRandomResizedCrop{
    .info = {"random_resized_crop",
             "A random part of the image, resized: torchvision's RandomResizedCrop.",
             kRandomResizedCropArguments, true},
    .make = make_random_resized_crop};
const OpKind kCenterCrop{.info = {"center_crop", "The middle of the image.", kCenterCropArguments},
                         .make = make_center_crop};
const OpKind kRandomCrop{
    .info = {"random_crop", "A random part of fixed size.", kRandomCropArguments, true},
    .make = make_random_crop};
const OpKind kFlip{.info = {"flip", "Mirrors the image with a probability.", kFlipArguments, true},
                   .make = make_flip};

}  // namespace forebay::ops
