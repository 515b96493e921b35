// The last pass over an image: flips, numbers, layout and type, straight into the batch. Pixels of
// eight bits have only 256 values, so what becomes of them is looked up: exact for every type, and
// as fast as storing the result.
#include <cstring>

#include "base/error.h"
#include "ops/convert.h"
#include "ops/render.h"

namespace forebay::ops {
namespace {

using formats::ElementType;

template <class T>
void put(std::byte* out, size_t index, T value) {
  std::memcpy(out + index * sizeof(T), &value, sizeof value);
}

template <class T>
T look_up(const std::byte* table, uint32_t channel, std::byte pixel) {
  T value;
  std::memcpy(&value, table + (channel * size_t{256} + static_cast<size_t>(pixel)) * sizeof(T),
              sizeof value);
  return value;
}

// Pixel 0 of a result row and the way to the next.
struct Row {
  const std::byte* first;
  ptrdiff_t step;
};

Row row_of(const Image& image, const ImageView& view, uint32_t y, size_t element_bytes) {
  const auto step = static_cast<ptrdiff_t>(view.step * element_bytes);
  const std::byte* row = view.data + (image.flip_y ? view.height - 1 - y : y) * view.row_bytes;
  if (!image.flip_x) return {row, step};
  return {row + step * static_cast<ptrdiff_t>(view.width - 1), -step};
}

// One channel of a row, four at a time: the loads of one do not wait for the store of another.
template <class T>
void finish_run(const std::byte* from, ptrdiff_t step, size_t count, const std::byte* table,
                std::byte* out) {
  size_t x = 0;
  for (; x + 4 <= count; x += 4, from += 4 * step) {
    const T values[4]{look_up<T>(table, 0, from[0]), look_up<T>(table, 0, from[step]),
                      look_up<T>(table, 0, from[2 * step]), look_up<T>(table, 0, from[3 * step])};
    std::memcpy(out + x * sizeof(T), values, sizeof values);
  }
  for (; x < count; ++x, from += step) put(out, x, look_up<T>(table, 0, *from));
}

template <class T>
void finish_planar(const Image& image, const ImageView& view, const std::byte* table,
                   std::byte* out) {
  const size_t width = view.width, plane = width * view.height;
  for (uint32_t y = 0; y < view.height; ++y) {
    const Row row = row_of(image, view, y, 1);
    for (uint32_t c = 0; c < view.channels; ++c)
      finish_run<T>(row.first + c, row.step, width, table + c * size_t{256} * sizeof(T),
                    out + (c * plane + y * width) * sizeof(T));
  }
}

template <class T, uint32_t kChannels>
void finish_rows(const Image& image, const ImageView& view, const std::byte* table,
                 std::byte* out) {
  const uint32_t channels = kChannels == 0 ? view.channels : kChannels;
  for (uint32_t y = 0; y < view.height; ++y) {
    const Row row = row_of(image, view, y, 1);
    const std::byte* from = row.first;
    for (uint32_t x = 0; x < view.width; ++x, from += row.step)
      for (uint32_t c = 0; c < channels; ++c, out += sizeof(T))
        put(out, 0, look_up<T>(table, c, from[c]));
  }
}

template <class T>
void finish_bytes(const Image& image, const ImageView& view, const std::byte* table,
                  std::byte* out) {
  if (image.is_planar) return finish_planar<T>(image, view, table, out);
  if (view.channels == 3) return finish_rows<T, 3>(image, view, table, out);
  finish_rows<T, 0>(image, view, table, out);
}

// Of other types than uint8, number by number.
void finish_wide(const Image& image, const ImageView& view, std::byte* out) {
  const size_t from_bytes = formats::element_bytes(view.type);
  const ElementType type = image.type();
  const size_t to_bytes = formats::element_bytes(type);
  const size_t plane = size_t{view.width} * view.height;
  std::vector<double> values(view.width);
  for (uint32_t y = 0; y < view.height; ++y) {
    const Row row = row_of(image, view, y, from_bytes);
    for (uint32_t c = 0; c < view.channels; ++c) {
      for (uint32_t x = 0; x < view.width; ++x)
        load_elements(view.type, row.first + x * row.step + c * from_bytes, {&values[x], 1});
      ElementType now = view.type;
      for (const PointOp* point : image.points) now = point->apply(now, c, values);
      for (uint32_t x = 0; x < view.width; ++x) {
        const size_t at = size_t{y} * view.width + x;
        const size_t index = image.is_planar ? c * plane + at : at * view.channels + c;
        store_elements(type, {&values[x], 1}, out + index * to_bytes);
      }
    }
  }
}

bool is_copy(const Image& image, const ImageView& view) {
  return !image.flip_x && !image.flip_y && !image.is_planar && image.points.empty() &&
         view.step == view.channels;
}

// Nothing to be done but decoding: the decoder's rows are the result's.
bool is_plain_jpeg(const Image& image) {
  return image.is_encoded && image.orientation == 1 && !image.resize && !image.flip_x &&
         !image.flip_y && image.points.empty() && !image.is_planar &&
         image.crop == Rectangle{0, 0, image.info.width, image.info.height} &&
         ((image.mode == ImageMode::kRgb && image.info.components <= 3) ||
          (image.mode == ImageMode::kAsStored && image.info.components == 3));
}

}  // namespace

Result<Field> finish_image(Workspace& workspace, std::string_view name, const Image& image,
                           Destination* to) {
  const uint64_t width = image.width(), height = image.height(), channels = image.channels();
  Field field{.name = name, .type = image.type(), .shape = {height, width, channels}};
  if (image.is_planar) field.shape = {channels, height, width};
  const uint64_t bytes = width * height * channels * formats::element_bytes(field.type);
  std::span<std::byte> out;
  if (to != nullptr) out = to->place(name, field.type, field.shape);
  if (out.size() != bytes) out = FB_TRY(workspace.take(bytes));
  field.bytes = out;
  if (is_plain_jpeg(image)) {
    FB_TRY(workspace.hold(image.info.coefficient_bytes));
    FB_TRY(workspace.jpeg().read_all(image.encoded, image.info, JpegPixels::kRgb, out));
    return field;
  }
  const ImageView view = FB_TRY(render_image(workspace, image));
  if (is_copy(image, view)) {
    const size_t row_bytes = bytes / height;
    for (uint32_t y = 0; y < view.height; ++y)
      std::memcpy(out.data() + y * row_bytes, view.data + y * view.row_bytes, row_bytes);
    return field;
  }
  if (view.type != ElementType::kU8) {
    finish_wide(image, view, out.data());
    return field;
  }
  const std::byte* table = workspace.table(image.points, view.channels).data();
  switch (formats::element_bytes(field.type)) {
    case 1:
      finish_bytes<uint8_t>(image, view, table, out.data());
      break;
    case 2:
      finish_bytes<uint16_t>(image, view, table, out.data());
      break;
    case 4:
      finish_bytes<uint32_t>(image, view, table, out.data());
      break;
    default:
      finish_bytes<uint64_t>(image, view, table, out.data());
      break;
  }
  return field;
}

}  // namespace forebay::ops
