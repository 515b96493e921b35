#include "ops/render.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "ops/orient.h"

namespace forebay::ops {
namespace {

using formats::ElementType;

// What becomes of a decoder's rows.
enum class RowChange { kNone, kInvert, kCmykToRgba, kRgbaToGrey, kCmykToGrey };

struct Route {
  JpegPixels pixels = JpegPixels::kRgba;
  RowChange change = RowChange::kNone;
  uint32_t channels = 3, step = 4;  // after the change
};

Route route_of(const Image& image) {
  const int components = image.info.components;
  const bool is_cmyk = components == 4;
  switch (image.mode) {
    case ImageMode::kGrey:
      if (components == 1) return {JpegPixels::kGrey, RowChange::kNone, 1, 1};
      if (is_cmyk) return {JpegPixels::kCmyk, RowChange::kCmykToGrey, 1, 1};
      return {JpegPixels::kRgba, RowChange::kRgbaToGrey, 1, 1};
    case ImageMode::kAsStored:
      if (components == 1) return {JpegPixels::kGrey, RowChange::kNone, 1, 1};
      if (is_cmyk)
        return {JpegPixels::kCmyk, image.info.has_adobe ? RowChange::kInvert : RowChange::kNone, 4,
                4};
      break;
    case ImageMode::kRgb:
    case ImageMode::kRgba:
      break;
  }
  return {is_cmyk ? JpegPixels::kCmyk : JpegPixels::kRgba,
          is_cmyk ? RowChange::kCmykToRgba : RowChange::kNone,
          image.mode == ImageMode::kRgba ? 4u : 3u, 4};
}

// Rows of a decoder, changed, then resampled along the row or only stored.
class RowsIn : public RowSink {
 public:
  RowsIn(const Image& image, const Route& route, const Rectangle& area, const Taps* taps,
         std::span<std::byte> changed, std::byte* out)
      : image_(image), route_(route), area_(area), taps_(taps), changed_(changed), out_(out) {}

  void row(uint32_t y, const std::byte* pixels) override {
    const std::byte* row = change(pixels);
    if (taps_ != nullptr) {
      resample_row(*taps_, row, area_.x, route_.step,
                   out_ + size_t{y} * taps_->outputs() * route_.step);
    } else {
      const size_t row_bytes = size_t{area_.width} * route_.step;
      std::memcpy(out_ + y * row_bytes, row, row_bytes);
    }
  }

 private:
  const std::byte* change(const std::byte* pixels) {
    if (route_.change == RowChange::kNone) return pixels;
    const size_t source_step = channels_of(route_.pixels);
    const std::span<const std::byte> row(pixels, area_.width * source_step);
    switch (route_.change) {
      case RowChange::kInvert:
        std::transform(row.begin(), row.end(), changed_.begin(), [](std::byte b) { return ~b; });
        break;
      case RowChange::kCmykToRgba:
        cmyk_to_rgb(row, !image_.info.has_adobe, changed_, 4);
        break;
      case RowChange::kCmykToGrey:
        cmyk_to_rgb(row, !image_.info.has_adobe, changed_, 4);
        to_grey(changed_.data());
        break;
      case RowChange::kRgbaToGrey:
        to_grey(pixels);
        break;
      case RowChange::kNone:
        break;
    }
    return changed_.data();
  }

  // In place, too: a pixel's luma is written before what follows it is read.
  void to_grey(const std::byte* rgba) {
    for (uint32_t x = 0; x < area_.width; ++x) {
      const auto at = [&](uint32_t c) { return static_cast<uint8_t>(rgba[size_t{x} * 4 + c]); };
      changed_[x] = std::byte{luma(at(0), at(1), at(2))};
    }
  }

  const Image& image_;
  const Route& route_;
  const Rectangle& area_;
  const Taps* taps_;
  std::span<std::byte> changed_;
  std::byte* out_;
};

// How upright coordinates of a scaled decode follow from those of the full image.
struct Scaled {
  uint32_t eighths = 8;
  uint32_t width = 0, height = 0;     // upright
  double offset_x = 0, offset_y = 0;  // of a mirrored axis whose last block is not whole
  double x(double full) const { return full * eighths / 8 + offset_x; }
  double y(double full) const { return full * eighths / 8 + offset_y; }
};

Scaled scale_to(const Image& image, uint32_t eighths) {
  const int o = image.orientation;
  const bool swaps = swaps_sides(o);
  const uint32_t width = swaps ? image.info.height : image.info.width;
  const uint32_t height = swaps ? image.info.width : image.info.height;
  Scaled scaled{
      .eighths = eighths, .width = (width * eighths + 7) / 8, .height = (height * eighths + 7) / 8};
  if (o == 2 || o == 3 || o == 6 || o == 7)
    scaled.offset_x = scaled.width - static_cast<double>(width) * eighths / 8;
  if (o == 3 || o == 4 || o == 7 || o == 8)
    scaled.offset_y = scaled.height - static_cast<double>(height) * eighths / 8;
  return scaled;
}

// The smallest decode that still has `oversampling` pixels for each one wanted.
uint32_t choose_eighths(const Image& image) {
  if (!image.resize || image.oversampling <= 0 || !image.resize->antialias ||
      image.resize->filter == Filter::kNearest)
    return 8;
  for (const uint32_t eighths : {1u, 2u, 4u})
    if (image.crop.width * eighths >= image.resize->width * 8 * image.oversampling &&
        image.crop.height * eighths >= image.resize->height * 8 * image.oversampling)
      return eighths;
  return 8;
}

// A rectangle of the upright image in the image as stored, whose sides are `width` and `height`.
Rectangle stored_area(const Rectangle& area, int orientation, uint32_t width, uint32_t height) {
  const bool swaps = swaps_sides(orientation);
  const bool mirrors_x =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool mirrors_y =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Rectangle stored = swaps ? Rectangle{area.y, area.x, area.height, area.width} : area;
  if (mirrors_x) stored.x = width - stored.x - stored.width;
  if (mirrors_y) stored.y = height - stored.y - stored.height;
  return stored;
}

ImageView view_of(const std::byte* data, uint32_t width, uint32_t height, const Route& route) {
  return {.data = data,
          .row_bytes = size_t{width} * route.step,
          .width = width,
          .height = height,
          .channels = route.channels,
          .step = route.step,
          .type = ElementType::kU8};
}

// The second pass: `rows` begins with the first input row that vertical taps look at.
Result<ImageView> resample_rows(Workspace& workspace, const std::byte* rows, const Route& route) {
  const Taps& vertical = workspace.vertical;
  const uint32_t width = workspace.horizontal.outputs();
  const size_t row_bytes = size_t{width} * route.step;
  const auto out = FB_TRY(workspace.take(row_bytes * vertical.outputs()));
  for (uint32_t y = 0; y < vertical.outputs(); ++y)
    resample_column(vertical, y, rows, row_bytes, vertical.begin(), row_bytes,
                    out.data() + y * row_bytes);
  return view_of(out.data(), width, vertical.outputs(), route);
}

void make_taps(Workspace& workspace, const Image& image, const Scaled& scaled) {
  const Rectangle& crop = image.crop;
  const Rectangle& window = image.window;
  const Resize& resize = *image.resize;
  workspace.horizontal.make({.from = scaled.x(crop.x),
                             .to = std::min<double>(scaled.x(crop.x + crop.width), scaled.width),
                             .size = resize.width,
                             .first = window.x,
                             .count = window.width},
                            resize.filter, resize.antialias);
  workspace.vertical.make({.from = scaled.y(crop.y),
                           .to = std::min<double>(scaled.y(crop.y + crop.height), scaled.height),
                           .size = resize.height,
                           .first = window.y,
                           .count = window.height},
                          resize.filter, resize.antialias);
}

Result<ImageView> render_jpeg(Workspace& workspace, const Image& image) {
  const Route route = route_of(image);
  const Scaled scaled = scale_to(image, choose_eighths(image));
  Rectangle area = image.crop;  // upright, of the scaled image
  if (image.resize) {
    make_taps(workspace, image, scaled);
    const Taps& h = workspace.horizontal;
    const Taps& v = workspace.vertical;
    area = {h.begin(), v.begin(), h.end() - h.begin(), v.end() - v.begin()};
  }
  const bool turns = image.orientation != 1;
  const bool swaps = swaps_sides(image.orientation);
  const JpegRequest request{
      .pixels = route.pixels,
      .eighths = scaled.eighths,
      .area = stored_area(area, image.orientation, swaps ? scaled.height : scaled.width,
                          swaps ? scaled.width : scaled.height)};
  const bool streams = image.resize && !turns;  // rows are resampled while the cache has them
  const uint32_t row_pixels = streams ? workspace.horizontal.outputs() : request.area.width;
  const auto rows = FB_TRY(workspace.take(uint64_t{row_pixels} * request.area.height * route.step));
  const auto changed = FB_TRY(
      workspace.take(route.change == RowChange::kNone ? 0 : uint64_t{request.area.width} * 4));
  RowsIn sink(image, route, request.area, streams ? &workspace.horizontal : nullptr, changed,
              rows.data());
  FB_TRY(workspace.hold(image.info.coefficient_bytes));
  FB_TRY(workspace.jpeg().read(image.encoded, image.info, request, sink));
  if (streams) return resample_rows(workspace, rows.data(), route);
  const std::byte* upright = rows.data();
  if (turns) {
    const auto turned = FB_TRY(workspace.take(rows.size()));
    orient({request.area.height, request.area.width, route.step}, image.orientation, rows, turned);
    upright = turned.data();
  }
  if (!image.resize) return view_of(upright, area.width, area.height, route);
  const size_t out_bytes = size_t{workspace.horizontal.outputs()} * route.step;
  const auto resampled = FB_TRY(workspace.take(out_bytes * area.height));
  for (uint32_t y = 0; y < area.height; ++y)
    resample_row(workspace.horizontal, upright + size_t{y} * area.width * route.step, area.x,
                 route.step, resampled.data() + y * out_bytes);
  return resample_rows(workspace, resampled.data(), route);
}

Result<ImageView> resize_pixels(Workspace& workspace, const Image& image) {
  make_taps(workspace, image,
            {.eighths = 8, .width = image.pixels.width, .height = image.pixels.height});
  const Taps& horizontal = workspace.horizontal;
  const Taps& vertical = workspace.vertical;
  const uint32_t rows = vertical.end() - vertical.begin();
  const ImageView& from = image.pixels;
  if (from.type != ElementType::kU8) {
    const size_t row_bytes =
        size_t{horizontal.outputs()} * from.channels * formats::element_bytes(from.type);
    const auto between = FB_TRY(workspace.take(row_bytes * rows));
    const auto out = FB_TRY(workspace.take(row_bytes * vertical.outputs()));
    resample_wide(from, horizontal, vertical, between, out);
    return ImageView{.data = out.data(),
                     .row_bytes = row_bytes,
                     .width = horizontal.outputs(),
                     .height = vertical.outputs(),
                     .channels = from.channels,
                     .step = from.channels,
                     .type = from.type};
  }
  const Route route{.channels = from.channels, .step = from.step};
  const size_t row_bytes = size_t{horizontal.outputs()} * from.step;
  const auto between = FB_TRY(workspace.take(row_bytes * rows));
  for (uint32_t y = 0; y < rows; ++y)
    resample_row(horizontal, from.data + (y + vertical.begin()) * from.row_bytes, 0, from.step,
                 between.data() + y * row_bytes);
  return resample_rows(workspace, between.data(), route);
}

}  // namespace

Result<ImageView> render_image(Workspace& workspace, const Image& image) {
  if (image.is_encoded) return render_jpeg(workspace, image);
  if (image.resize) return resize_pixels(workspace, image);
  ImageView view = image.pixels;
  view.data +=
      image.crop.y * view.row_bytes + image.crop.x * view.step * formats::element_bytes(view.type);
  view.width = image.crop.width;
  view.height = image.crop.height;
  return view;
}

}  // namespace forebay::ops
