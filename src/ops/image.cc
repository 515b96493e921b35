#include "ops/image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "ops/allowance.h"
#include "ops/convert.h"
#include "ops/orient.h"
#include "ops/render.h"

namespace forebay::ops {

using formats::ElementType;

namespace {

double largest_of(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return 255;
    case ElementType::kU16:
      return 65535;
    default:
      return 1;
  }
}

// (v / 255 - mean) / deviation in single precision, step by step, as torchvision does it.
void normalize(const PointOp& op, ElementType from, uint32_t channel, std::span<double> values) {
  const float mean = op.mean[op.mean.size() == 1 ? 0 : channel];
  const float deviation = op.deviation[op.deviation.size() == 1 ? 0 : channel];
  const auto largest = static_cast<float>(op.scales ? largest_of(from) : 1);
  for (double& value : values) value = (static_cast<float>(value) / largest - mean) / deviation;
}

// Values as they are once stored in `type`.
void round_to(ElementType type, std::span<double> values) {
  if (type == ElementType::kF64) return;
  for (double& value : values) {
    std::byte stored[8];
    store_elements(type, {&value, 1}, stored);
    load_elements(type, stored, {&value, 1});
  }
}

Rectangle mirrored(const Image& image, Rectangle area) {
  if (image.flip_x) area.x = image.width() - area.x - area.width;
  if (image.flip_y) area.y = image.height() - area.y - area.height;
  return area;
}

// Whatever an image was, it is these pixels now; flips and points stay to be done.
void replace_pixels(Image& image, const ImageView& pixels, bool is_private) {
  image.is_encoded = false;
  image.encoded = {};
  image.pixels = pixels;
  image.is_private = is_private;
  image.crop = {0, 0, pixels.width, pixels.height};
  image.resize.reset();
  image.window = {};
}

ImageView view_of(std::span<std::byte> memory, uint32_t width, uint32_t height, uint32_t channels,
                  uint32_t step, ElementType type) {
  return {.data = memory.data(),
          .row_bytes = size_t{width} * step * formats::element_bytes(type),
          .width = width,
          .height = height,
          .channels = channels,
          .step = step,
          .type = type};
}

template <class T>
void convert_pixels(const ImageView& from, uint32_t channels, std::byte* out) {
  constexpr T kOpaque = std::numeric_limits<T>::max();
  const uint32_t source = from.channels;
  const bool has_colour = source >= 3, has_alpha = source % 2 == 0;
  for (uint32_t y = 0; y < from.height; ++y)
    for (uint32_t x = 0; x < from.width; ++x) {
      T in[4], result[4];
      std::memcpy(in, from.data + y * from.row_bytes + size_t{x} * from.step * sizeof(T),
                  source * sizeof(T));
      const T alpha = has_alpha ? in[source - 1] : kOpaque;
      if (channels == 1) {
        result[0] = has_colour ? luma(in[0], in[1], in[2]) : in[0];
      } else {
        for (int c = 0; c < 3; ++c) result[c] = in[has_colour ? c : 0];
        result[3] = alpha;
      }
      std::memcpy(out + (size_t{y} * from.width + x) * channels * sizeof(T), result,
                  channels * sizeof(T));
    }
}

}  // namespace

ElementType PointOp::apply(ElementType from, uint32_t channel, std::span<double> values) const {
  if (normalizes) normalize(*this, from, channel, values);
  round_to(type, values);
  return type;
}

uint32_t Image::channels() const {
  if (!is_encoded) return pixels.channels;
  switch (mode) {
    case ImageMode::kAsStored:
      return static_cast<uint32_t>(info.components);
    case ImageMode::kGrey:
      return 1;
    case ImageMode::kRgb:
      return 3;
    case ImageMode::kRgba:
      return 4;
  }
  return 3;
}

ElementType Image::type() const {
  if (!points.empty()) return points.back()->type;
  return is_encoded ? ElementType::kU8 : pixels.type;
}

Workspace::Workspace(const DecodeOptions& options) : options_(options), jpeg_(options) {}
Workspace::~Workspace() {
  reset();
}

Status Workspace::hold(uint64_t bytes) {
  Allowance* memory = options_.memory.get();
  sample_bytes_ += bytes;
  const uint64_t all = held_bytes_ + sample_bytes_;
  if (memory == nullptr || all <= memory->each_bytes()) return {};
  FB_TRY(memory->check(all));
  if (!has_turn_) memory->take_turn();
  has_turn_ = true;
  return {};
}

Status Workspace::hold_for(const Decoder& decoder, uint64_t bytes) {
  uint64_t& known = decoder_bytes_[&decoder];
  if (bytes <= known) return {};
  const uint64_t more = bytes - known;
  FB_TRY(hold(more));
  sample_bytes_ -= more;
  held_bytes_ += more;
  known = bytes;
  return {};
}

Result<std::span<std::byte>> Workspace::take(uint64_t bytes) {
  constexpr uint64_t kSlack = 64;
  if (taken_ == buffers_.size()) buffers_.emplace_back();
  formats::ByteBuffer& buffer = buffers_[taken_];
  const uint64_t wanted = bytes + kSlack;
  if (wanted > buffer.capacity()) {
    const uint64_t more = wanted - buffer.capacity();
    FB_TRY(hold(more));
    sample_bytes_ -= more;
    held_bytes_ += more;
  }
  ++taken_;
  return buffer.reserve(wanted).first(bytes);
}

void Workspace::reset() {
  taken_ = 0;
  sample_bytes_ = 0;
  if (!has_turn_) return;
  buffers_.clear();
  decoder_bytes_.clear();
  for (auto& decoder : decoders_) decoder.reset();
  held_bytes_ = 0;
  has_turn_ = false;
  options_.memory->end_turn();
}

Decoder& Workspace::decoder(bool converts_to_rgb, bool keeps_16_bit, bool orients) {
  auto& decoder = decoders_[(converts_to_rgb ? 1 : 0) + (keeps_16_bit ? 2 : 0) + (orients ? 4 : 0)];
  if (!decoder) {
    DecodeOptions options = options_;
    options.convert_to_rgb = converts_to_rgb;
    options.keep_16_bit = keeps_16_bit;
    options.apply_orientation = orients;
    decoder = make_decoder(options);
  }
  return *decoder;
}

std::span<const std::byte> Workspace::table(std::span<const PointOp* const> points,
                                            uint32_t channels) {
  for (const Table& table : tables_)
    if (table.channels == channels &&
        std::equal(points.begin(), points.end(), table.points.begin(), table.points.end()))
      return table.bytes;
  Table& table = tables_.emplace_back();
  table.points.assign(points.begin(), points.end());
  table.channels = channels;
  const ElementType last = points.empty() ? ElementType::kU8 : points.back()->type;
  const size_t row_bytes = 256 * formats::element_bytes(last);
  table.bytes.resize(row_bytes * channels);
  for (uint32_t channel = 0; channel < channels; ++channel) {
    double values[256];
    for (size_t i = 0; i < 256; ++i) values[i] = static_cast<double>(i);
    ElementType type = ElementType::kU8;
    for (const PointOp* point : points) type = point->apply(type, channel, values);
    store_elements(type, values, table.bytes.data() + channel * row_bytes);
  }
  return table.bytes;
}

Result<Image> open_jpeg(Workspace& workspace, std::span<const std::byte> bytes, ImageMode mode,
                        bool orients) {
  Image image{.is_encoded = true, .encoded = bytes, .mode = mode};
  image.info = FB_TRY(workspace.jpeg().open(bytes));
  if (image.info.width == 0 || image.info.height == 0)
    return fail(ErrorCode::kCorruption, "an image of {} x {} pixels", image.info.width,
                image.info.height);
  image.orientation = orients ? image.info.orientation : 1;
  image.crop = {0, 0, image.info.width, image.info.height};
  if (swaps_sides(image.orientation)) std::swap(image.crop.width, image.crop.height);
  return image;
}

Image image_of(const ImageView& pixels, bool is_private) {
  Image image;
  replace_pixels(image, pixels, is_private);
  return image;
}

Result<Image> convert_mode(Workspace& workspace, const ImageView& pixels, ImageMode mode) {
  FB_CHECK(mode == ImageMode::kGrey || mode == ImageMode::kRgba);
  const uint32_t channels = mode == ImageMode::kGrey ? 1 : 4;
  const auto memory = FB_TRY(workspace.take(uint64_t{pixels.width} * pixels.height * channels *
                                            formats::element_bytes(pixels.type)));
  if (pixels.type == ElementType::kU16)
    convert_pixels<uint16_t>(pixels, channels, memory.data());
  else
    convert_pixels<uint8_t>(pixels, channels, memory.data());
  return image_of(view_of(memory, pixels.width, pixels.height, channels, channels, pixels.type),
                  true);
}

Status crop_image(Workspace& /*workspace*/, Image& image, const Rectangle& area) {
  FB_CHECK(area.width > 0 && area.height > 0 && area.x + area.width <= image.width() &&
           area.y + area.height <= image.height());
  const Rectangle inner = mirrored(image, area);
  Rectangle& outer = image.resize ? image.window : image.crop;
  outer = {outer.x + inner.x, outer.y + inner.y, inner.width, inner.height};
  return {};
}

Status resize_image(Workspace& workspace, Image& image, const Resize& resize) {
  if (!image.points.empty()) FB_TRY(settle_points(workspace, image));
  if (image.resize) FB_TRY(settle_pixels(workspace, image));
  const ElementType type = image.type();
  if (type != ElementType::kU8 && type != ElementType::kU16 && type != ElementType::kF32)
    return fail(ErrorCode::kUnsupported, "resizing needs uint8, uint16 or float32, not {}",
                formats::element_name(type));
  if (image.channels() > 4 && type == ElementType::kU8)
    return fail(ErrorCode::kUnsupported, "resizing an image of {} channels", image.channels());
  if (resize.width == image.width() && resize.height == image.height()) return {};
  image.resize = resize;
  image.window = {0, 0, resize.width, resize.height};
  return {};
}

Status pad_image(Workspace& workspace, Image& image, const Border& border, double value) {
  if (!image.points.empty()) FB_TRY(settle_points(workspace, image));
  const ImageView from = FB_TRY(render_image(workspace, image));
  Border sides = border;
  if (image.flip_x) std::swap(sides.left, sides.right);
  if (image.flip_y) std::swap(sides.top, sides.bottom);
  const uint32_t width = from.width + sides.left + sides.right;
  const uint32_t height = from.height + sides.top + sides.bottom;
  const size_t pixel_bytes = from.step * formats::element_bytes(from.type);
  const auto memory = FB_TRY(workspace.take(uint64_t{width} * height * pixel_bytes));
  const ImageView to = view_of(memory, width, height, from.channels, from.step, from.type);
  const std::vector<double> values(size_t{width} * from.step, value);
  store_elements(from.type, values, memory.data());
  for (uint32_t y = 1; y < height; ++y)
    std::memcpy(memory.data() + y * to.row_bytes, memory.data(), to.row_bytes);
  for (uint32_t y = 0; y < from.height; ++y)
    std::memcpy(memory.data() + (y + sides.top) * to.row_bytes + sides.left * pixel_bytes,
                from.data + y * from.row_bytes, from.width * pixel_bytes);
  replace_pixels(image, to, true);
  return {};
}

Status settle_pixels(Workspace& workspace, Image& image) {
  if (!image.is_encoded && image.is_private && !image.resize &&
      image.crop == Rectangle{0, 0, image.pixels.width, image.pixels.height})
    return {};
  ImageView view = FB_TRY(render_image(workspace, image));
  if (!image.is_encoded && !image.resize) {  // still somebody else's
    const size_t row_bytes = view.width * view.step * formats::element_bytes(view.type);
    const auto memory = FB_TRY(workspace.take(row_bytes * view.height));
    for (uint32_t y = 0; y < view.height; ++y)
      std::memcpy(memory.data() + y * row_bytes, view.data + y * view.row_bytes, row_bytes);
    view.data = memory.data();
    view.row_bytes = row_bytes;
  }
  replace_pixels(image, view, true);
  return {};
}

Status settle_points(Workspace& workspace, Image& image) {
  const bool is_planar = image.is_planar;
  image.is_planar = false;
  const Field field = FB_TRY(finish_image(workspace, {}, image, nullptr));
  const ImageView view{.data = field.bytes.data(),
                       .row_bytes = field.bytes.size() / field.shape[0],
                       .width = image.width(),
                       .height = image.height(),
                       .channels = image.channels(),
                       .step = image.channels(),
                       .type = field.type};
  replace_pixels(image, view, true);
  image.flip_x = image.flip_y = false;
  image.points.clear();
  image.is_planar = is_planar;
  return {};
}

}  // namespace forebay::ops
