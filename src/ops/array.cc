// Arrays: C order and native byte order, one sample cut from the last axis where a file holds
// several.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/codec.h"

namespace forebay::ops {
namespace {

using formats::ArrayLayout;
using formats::Record;

// A sample as a strided view of the record's bytes; strides count bytes.
struct View {
  std::vector<uint64_t> shape;
  std::vector<uint64_t> strides;
  uint64_t offset = 0;
  size_t item_bytes = 1;
  size_t swap_bytes = 1;  // unit of byte order: half an item for complex numbers
  bool is_contiguous = true;

  uint64_t bytes() const {
    uint64_t total = item_bytes;
    for (const uint64_t n : shape) total *= n;
    return total;
  }
};

Result<View> make_view(const Record& record) {
  const ArrayLayout& layout = record.array;
  const uint64_t whole = FB_TRY(formats::array_bytes(layout));
  if (whole != record.bytes.size())
    return fail(ErrorCode::kCorruption, "an array of {} bytes in {} bytes", whole,
                record.bytes.size());
  View view{.shape = layout.shape, .strides = std::vector<uint64_t>(layout.shape.size())};
  view.item_bytes = formats::element_bytes(layout.type);
  const bool is_complex =
      layout.type == formats::ElementType::kC64 || layout.type == formats::ElementType::kC128;
  if (layout.is_big_endian) view.swap_bytes = is_complex ? view.item_bytes / 2 : view.item_bytes;
  uint64_t stride = view.item_bytes;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    const size_t axis = layout.is_fortran_order ? i : view.shape.size() - 1 - i;
    view.strides[axis] = stride;
    stride *= view.shape[axis];
  }
  if (record.sample_axis >= 0) {
    const auto axis = static_cast<size_t>(record.sample_axis);
    if (axis >= view.shape.size() || record.sample_in_file >= view.shape[axis])
      return fail(ErrorCode::kInvalidArgument, "sample {} of an axis of {}", record.sample_in_file,
                  axis < view.shape.size() ? view.shape[axis] : 0);
    view.offset = record.sample_in_file * view.strides[axis];
    view.shape.erase(view.shape.begin() + record.sample_axis);
    view.strides.erase(view.strides.begin() + record.sample_axis);
  }
  uint64_t expected = view.item_bytes;
  for (size_t i = view.shape.size(); i-- > 0;) {
    // The stride of an axis of one entry does not matter.
    if (view.shape[i] > 1 && view.strides[i] != expected) view.is_contiguous = false;
    expected *= view.shape[i];
  }
  return view;
}

template <size_t kBytes>
void copy_items(const std::byte* from, uint64_t stride, uint64_t count, std::byte* to) {
  for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * kBytes, from + i * stride, kBytes);
}

void copy_run(const View& view, const std::byte* from, uint64_t stride, uint64_t count,
              std::byte* to) {
  if (stride == view.item_bytes) {
    std::memcpy(to, from, count * view.item_bytes);
    return;
  }
  switch (view.item_bytes) {
    case 1:
      return copy_items<1>(from, stride, count, to);
    case 2:
      return copy_items<2>(from, stride, count, to);
    case 4:
      return copy_items<4>(from, stride, count, to);
    case 8:
      return copy_items<8>(from, stride, count, to);
    default:
      return copy_items<16>(from, stride, count, to);
  }
}

// A plane whose source runs along the other axis: tiles keep both sides in the cache.
void copy_plane(const View& view, const std::byte* from, uint64_t rows, uint64_t row_stride,
                uint64_t columns, uint64_t column_stride, std::byte* to) {
  constexpr uint64_t kTile = 64;
  for (uint64_t column = 0; column < columns; column += kTile) {
    const uint64_t n = std::min(kTile, columns - column);
    for (uint64_t row = 0; row < rows; ++row)
      copy_run(view, from + row * row_stride + column * column_stride, column_stride, n,
               to + (row * columns + column) * view.item_bytes);
  }
}

void gather(const View& view, const std::byte* source, std::byte* out) {
  const size_t axes = view.shape.size();
  if (axes == 0) {
    std::memcpy(out, source + view.offset, view.item_bytes);
    return;
  }
  const uint64_t columns = view.shape[axes - 1];
  const uint64_t rows = axes > 1 ? view.shape[axes - 2] : 1;
  const uint64_t row_stride = axes > 1 ? view.strides[axes - 2] : 0;
  std::vector<uint64_t> position(axes > 2 ? axes - 2 : 0, 0);
  const std::byte* from = source + view.offset;
  for (;;) {
    copy_plane(view, from, rows, row_stride, columns, view.strides[axes - 1], out);
    out += rows * columns * view.item_bytes;
    size_t axis = position.size();
    while (axis > 0) {
      --axis;
      from += view.strides[axis];
      if (++position[axis] < view.shape[axis]) break;
      from -= view.strides[axis] * view.shape[axis];
      position[axis] = 0;
      if (axis == 0) return;
    }
    if (position.empty()) return;
  }
}

template <class T>
void swap_all(std::span<std::byte> bytes, T (*swap)(T)) {
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, &bytes[i], sizeof value);
    value = swap(value);
    std::memcpy(&bytes[i], &value, sizeof value);
  }
}

void swap_bytes(std::span<std::byte> bytes, size_t unit) {
  if (unit == 2)
    swap_all<uint16_t>(bytes, [](uint16_t v) { return __builtin_bswap16(v); });
  else if (unit == 4)
    swap_all<uint32_t>(bytes, [](uint32_t v) { return __builtin_bswap32(v); });
  else if (unit == 8)
    swap_all<uint64_t>(bytes, [](uint64_t v) -> uint64_t { return __builtin_bswap64(v); });
}

class ArrayCodec : public Codec {
 public:
  Result<uint64_t> decoded_bytes(const Record& record) override {
    const View view = FB_TRY(make_view(record));
    return view.bytes();
  }

  Result<Sample> decode(const Record& record, std::span<std::byte> destination) override {
    View view = FB_TRY(make_view(record));
    const uint64_t bytes = view.bytes();
    Sample sample{.type = record.array.type, .shape = std::move(view.shape), .bytes = {}};
    const bool is_plain = view.is_contiguous && view.swap_bytes == 1;
    if (bytes == 0 || (is_plain && (destination.empty() || destination.size() < bytes))) {
      sample.bytes = record.bytes.subspan(bytes == 0 ? 0 : view.offset, bytes);
      return sample;
    }
    const std::span<std::byte> out = choose_output(destination, bytes, scratch_);
    if (view.is_contiguous) {
      std::memcpy(out.data(), record.bytes.data() + view.offset, bytes);
    } else {
      view.shape = sample.shape;
      gather(view, record.bytes.data(), out.data());
    }
    swap_bytes(out, view.swap_bytes);
    sample.bytes = out;
    return sample;
  }

 private:
  formats::ByteBuffer scratch_;
};

}  // namespace

std::unique_ptr<Codec> make_array_codec() {
  return std::make_unique<ArrayCodec>();
}

}  // namespace forebay::ops
