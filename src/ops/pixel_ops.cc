// Ops on each number by itself, and on the order in which they lie: normalize, cast, layout.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/builtin_ops.h"
#include "ops/convert.h"

namespace forebay::ops {
namespace {

using formats::ElementType;

Result<bool> is_chw(const Arguments& arguments, std::string_view name) {
  const std::string& order = arguments.text(name);
  if (order == "CHW" || order == "chw") return true;
  if (order == "HWC" || order == "hwc") return false;
  return fail(ErrorCode::kInvalidArgument, "{} '{}': CHW or HWC", name, order);
}

// From rows of `columns` items to columns of `rows` items.
void transpose(std::span<const std::byte> from, uint64_t rows, uint64_t columns, size_t item_bytes,
               std::byte* to) {
  for (uint64_t c = 0; c < columns; ++c)
    for (uint64_t r = 0; r < rows; ++r, to += item_bytes)
      std::copy_n(from.data() + (r * columns + c) * item_bytes, item_bytes, to);
}

// --- normalize ---

std::vector<float> floats(const std::vector<double>& numbers) {
  return {numbers.begin(), numbers.end()};
}

class Normalize : public Step {
 public:
  Normalize(const Arguments& arguments, PointOp op, bool is_planar)
      : fields_(arguments.texts("field")), op_(std::move(op)), is_planar_(is_planar) {}

  Status run(SampleState& state) const override {
    for (const std::string& field : fields_) {
      Value* value = FB_TRY(state.get(field));
      if (value->kind == Value::Kind::kImage) {
        const uint32_t channels = value->image.channels();
        if (!fits(channels)) return wrong_channels(field, channels);
        value->image.points.push_back(&op_);
        value->image.is_planar = is_planar_;
      } else {
        FB_TRY(normalize_array(state, field));
      }
    }
    return {};
  }
  bool is_last_for_pixels() const override { return true; }

 private:
  bool fits(uint64_t channels) const {
    return (op_.mean.size() == 1 || op_.mean.size() == channels) &&
           (op_.deviation.size() == 1 || op_.deviation.size() == channels);
  }
  Status wrong_channels(std::string_view field, uint64_t channels) const {
    return fail(ErrorCode::kInvalidArgument, "field '{}' has {} channels; mean has {}, std {}",
                field, channels, op_.mean.size(), op_.deviation.size());
  }

  // Channels are the last axis, or the first where only that one fits.
  Status normalize_array(SampleState& state, std::string_view field) const {
    Value* value = FB_TRY(state.array(field));
    if (!is_number(value->type))
      return fail(ErrorCode::kInvalidArgument, "field '{}' holds {}", field,
                  formats::element_name(value->type));
    const auto& shape = value->shape;
    const bool is_one = op_.mean.size() == 1 && op_.deviation.size() == 1;
    const bool is_last = is_one || (!shape.empty() && fits(shape.back()));
    const bool is_first = !is_last && !shape.empty() && fits(shape.front());
    if (!is_last && !is_first) return wrong_channels(field, shape.empty() ? 1 : shape.back());
    const uint64_t count = element_count(shape);
    const uint64_t channels = is_one ? 1 : is_last ? shape.back() : shape.front();
    const auto out = FB_TRY(state.take({op_.type, shape}));
    const size_t from_bytes = formats::element_bytes(value->type);
    const size_t to_bytes = formats::element_bytes(op_.type);
    // As runs of one channel: whole planes, or single numbers.
    const uint64_t run = is_one ? count : is_first ? count / std::max<uint64_t>(channels, 1) : 1;
    double numbers[256];
    for (uint64_t at = 0, channel = 0; at < count; channel = (channel + 1) % channels)
      for (uint64_t end = at + run; at < end;) {
        const size_t n = std::min<uint64_t>(std::size(numbers), end - at);
        const std::span<double> piece(numbers, n);
        load_elements(value->type, value->bytes.data() + at * from_bytes, piece);
        op_.apply(value->type, static_cast<uint32_t>(channel), piece);
        store_elements(op_.type, piece, out.data() + at * to_bytes);
        at += n;
      }
    SampleState::set_array(*value, {op_.type, shape}, out);
    return {};
  }

  std::vector<std::string> fields_;
  PointOp op_;
  bool is_planar_;
};

constexpr OpArgument kField{"field", "texts", "image", "the fields it is done to"};

constexpr std::array kNormalizeArguments{
    OpArgument{"mean", "numbers", "", "one, or one per channel, of values divided as below"},
    OpArgument{"std", "numbers", "", "the same; none is 0"},
    OpArgument{"scale", "flag", "true", "divide uint8 by 255 and uint16 by 65535 first"},
    OpArgument{"layout", "text", "CHW",
               "CHW or HWC: of images, in the batch; other arrays stay as they are"},
    OpArgument{"type", "text", "float32", "float16, bfloat16, float32 or float64"},
    kField};

Result<std::unique_ptr<Step>> make_normalize(const Arguments& arguments, const DecodeOptions&) {
  PointOp op{.normalizes = true,
             .scales = arguments.flag("scale"),
             .mean = floats(arguments.numbers("mean")),
             .deviation = floats(arguments.numbers("std"))};
  if (op.mean.empty() || op.deviation.empty())
    return fail(ErrorCode::kInvalidArgument, "mean and std: at least one number each");
  if (std::find(op.deviation.begin(), op.deviation.end(), 0.0f) != op.deviation.end())
    return fail(ErrorCode::kInvalidArgument, "std: 0 divides nothing");
  op.type = FB_TRY(number_type(arguments.text("type")));
  if (!is_float(op.type))
    return fail(ErrorCode::kInvalidArgument, "type {}: a float", arguments.text("type"));
  const bool is_planar = FB_TRY(is_chw(arguments, "layout"));
  return make_step<Normalize>(arguments, std::move(op), is_planar);
}

// --- cast ---

class Cast : public Step {
 public:
  Cast(const Arguments& arguments, ElementType type)
      : fields_(arguments.texts("field")), op_{.type = type} {}

  Status run(SampleState& state) const override {
    for (const std::string& field : fields_) {
      Value* value = FB_TRY(state.get(field));
      if (value->kind == Value::Kind::kImage) {
        if (value->image.type() != op_.type) value->image.points.push_back(&op_);
        continue;
      }
      value = FB_TRY(state.array(field));
      if (value->type == op_.type) continue;
      const auto out = FB_TRY(state.take({op_.type, value->shape}));
      FB_TRY(convert_elements(value->type, value->bytes.data(), element_count(value->shape),
                              op_.type, out.data()));
      SampleState::set_array(*value, {op_.type, value->shape}, out);
    }
    return {};
  }

 private:
  std::vector<std::string> fields_;
  PointOp op_;
};

constexpr std::array kCastArguments{
    OpArgument{"type", "text", "",
               "uint8 (u8), float16 (f16), bfloat16 (bf16), float32 (f32), int64 and the rest; "
               "integers are clamped, fractions cut off"},
    kField};

Result<std::unique_ptr<Step>> make_cast(const Arguments& arguments, const DecodeOptions&) {
  const ElementType type = FB_TRY(number_type(arguments.text("type")));
  return make_step<Cast>(arguments, type);
}

// --- layout ---

class Layout : public Step {
 public:
  Layout(const Arguments& arguments, bool to_chw, bool from_chw)
      : fields_(arguments.texts("field")), to_chw_(to_chw), from_chw_(from_chw) {}

  Status run(SampleState& state) const override {
    for (const std::string& field : fields_) {
      Value* value = FB_TRY(state.get(field));
      if (value->kind == Value::Kind::kImage) {
        value->image.is_planar = to_chw_;
        continue;
      }
      value = FB_TRY(state.array(field));
      if (value->shape.size() != 3)
        return fail(ErrorCode::kInvalidArgument, "field '{}' has {} dimensions; a layout needs 3",
                    field, value->shape.size());
      if (to_chw_ == from_chw_) continue;
      const auto& shape = value->shape;
      const auto out = FB_TRY(state.take({value->type, shape}));
      const size_t item_bytes = formats::element_bytes(value->type);
      if (to_chw_)
        transpose(value->bytes, shape[0] * shape[1], shape[2], item_bytes, out.data());
      else
        transpose(value->bytes, shape[0], shape[1] * shape[2], item_bytes, out.data());
      const std::vector<uint64_t> turned = to_chw_ ? std::vector{shape[2], shape[0], shape[1]}
                                                   : std::vector{shape[1], shape[2], shape[0]};
      SampleState::set_array(*value, {value->type, turned}, out);
    }
    return {};
  }

 private:
  std::vector<std::string> fields_;
  bool to_chw_, from_chw_;
};

constexpr std::array kLayoutArguments{
    OpArgument{"order", "text", "", "CHW or HWC, in the batch; ops see HWC before and after"},
    OpArgument{"from", "text", "HWC", "CHW or HWC: how an array that is no image lies in its file"},
    kField};

Result<std::unique_ptr<Step>> make_layout(const Arguments& arguments, const DecodeOptions&) {
  const bool to_chw = FB_TRY(is_chw(arguments, "order"));
  const bool from_chw = FB_TRY(is_chw(arguments, "from"));
  return make_step<Layout>(arguments, to_chw, from_chw);
}

}  // namespace

const OpKind kNormalize{
    .info = {"normalize", "(value / 255 - mean) / std: torchvision's ToTensor and Normalize.",
             kNormalizeArguments},
    .make = make_normalize};
const OpKind kCast{.info = {"cast", "Another element type.", kCastArguments}, .make = make_cast};
const OpKind kLayout{.info = {"layout", "Channels first or last.", kLayoutArguments},
                     .make = make_layout};

}  // namespace forebay::ops
