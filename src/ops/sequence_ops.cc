// Ops on arrays that are no pictures: pad (pictures, too), one_hot, tokens.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "ops/builtin_ops.h"
#include "ops/convert.h"

namespace forebay::ops {
namespace {

using formats::ElementType;

constexpr double kLengthMax = 1e9;
constexpr uint64_t kSideMax = 1u << 20;  // of a picture

// --- pad ---

// One element of `type`, `count` times.
void fill(ElementType type, double value, uint64_t count, std::byte* out) {
  const size_t item = formats::element_bytes(type);
  std::byte stored[8];
  store_elements(type, {&value, 1}, stored);
  for (uint64_t i = 0; i < count; ++i) std::memcpy(out + i * item, stored, item);
}

class Pad : public Step {
 public:
  explicit Pad(const Arguments& arguments)
      : field_(arguments.text("field")),
        mask_(arguments.text("mask")),
        value_(arguments.number("value")),
        truncates_(arguments.flag("truncate")),
        is_centered_(arguments.flag("center")) {
    for (const double n : arguments.numbers("size")) size_.push_back(static_cast<uint64_t>(n));
  }

  Status run(SampleState& state) const override {
    Value* value = FB_TRY(state.get(field_));
    if (value->kind == Value::Kind::kImage) return pad_picture(state, value->image);
    value = FB_TRY(state.array(field_));
    if (value->shape.size() < size_.size())
      return fail(ErrorCode::kInvalidArgument, "field '{}' has {} dimensions, size {}", field_,
                  value->shape.size(), size_.size());
    const uint64_t length = value->shape[0];
    FB_TRY(pad_array(state, *value));
    if (!mask_.empty()) FB_TRY(add_mask(state, std::min(length, size_[0])));
    return {};
  }

 private:
  Status pad_picture(SampleState& state, Image& image) const {
    if (size_.size() != 2 || !mask_.empty())
      return fail(ErrorCode::kInvalidArgument, "an image takes a size of two numbers, and no mask");
    for (const uint64_t side : size_)
      if (side > kSideMax)
        return fail(ErrorCode::kInvalidArgument, "size {}: of an image at most {}", side, kSideMax);
    FB_TRY(fit(image.height(), size_[0]));
    FB_TRY(fit(image.width(), size_[1]));
    const Rectangle kept{
        .width = static_cast<uint32_t>(std::min<uint64_t>(image.width(), size_[1])),
        .height = static_cast<uint32_t>(std::min<uint64_t>(image.height(), size_[0]))};
    FB_TRY(crop_image(state.workspace(), image, kept));
    const auto below = static_cast<uint32_t>(size_[0]) - kept.height;
    const auto beside = static_cast<uint32_t>(size_[1]) - kept.width;
    if (below == 0 && beside == 0) return {};
    const Border border{.left = is_centered_ ? beside / 2 : 0, .top = is_centered_ ? below / 2 : 0};
    return pad_image(state.workspace(), image,
                     {border.left, border.top, beside - border.left, below - border.top}, value_);
  }

  Status fit(uint64_t has, uint64_t wanted) const {
    if (has <= wanted || truncates_) return {};
    return fail(ErrorCode::kInvalidArgument, "field '{}': {} do not fit into {} (truncate)", field_,
                has, wanted);
  }

  Status pad_array(SampleState& state, Value& value) const {
    if (!is_number(value.type))
      return fail(ErrorCode::kInvalidArgument, "field '{}' holds {}", field_,
                  formats::element_name(value.type));
    std::vector<uint64_t> shape = value.shape;
    std::vector<uint64_t> kept = value.shape;
    for (size_t axis = 0; axis < size_.size(); ++axis) {
      FB_TRY(fit(shape[axis], size_[axis]));
      shape[axis] = size_[axis];
      kept[axis] = std::min(kept[axis], size_[axis]);
    }
    if (shape == value.shape) return {};
    const auto out = FB_TRY(state.take({value.type, shape}));
    fill(value.type, value_, element_count(shape), out.data());
    copy_box({value.shape, value.bytes.data()}, {shape, nullptr}, kept,
             formats::element_bytes(value.type), out.data());
    SampleState::set_array(value, {value.type, shape}, out);
    return {};
  }

  struct Grid {
    const std::vector<uint64_t>& shape;
    const std::byte* data;
  };
  // The corner of `from` that is `kept` large into the (middle or) corner of `to`.
  void copy_box(const Grid& from, const Grid& to, const std::vector<uint64_t>& kept,
                size_t item_bytes, std::byte* out) const {
    if (element_count(kept) == 0) return;
    const size_t axes = kept.size();
    std::vector<uint64_t> position(axes, 0);
    for (;;) {
      uint64_t source = 0, target = 0;
      for (size_t axis = 0; axis < axes; ++axis) {
        const uint64_t margin = is_centered_ ? (to.shape[axis] - kept[axis]) / 2 : 0;
        source = source * from.shape[axis] + position[axis];
        target = target * to.shape[axis] + position[axis] + margin;
      }
      std::memcpy(out + target * item_bytes, from.data + source * item_bytes,
                  kept[axes - 1] * item_bytes);
      size_t axis = axes - 1;  // whole runs of the last one
      while (axis > 0 && ++position[axis - 1] == kept[axis - 1]) position[--axis] = 0;
      if (axis == 0) return;
    }
  }

  Status add_mask(SampleState& state, uint64_t length) const {
    const SampleState::NewArray array{ElementType::kBool, {size_[0]}};
    const auto out = FB_TRY(state.take(array));
    const uint64_t first = is_centered_ ? (size_[0] - length) / 2 : 0;
    std::fill(out.begin(), out.end(), std::byte{0});
    std::fill_n(out.begin() + static_cast<ptrdiff_t>(first), length, std::byte{1});
    Value* mask = FB_TRY(state.add(mask_));
    SampleState::set_array(*mask, array, out);
    return {};
  }

  std::string field_, mask_;
  double value_;
  bool truncates_, is_centered_;
  std::vector<uint64_t> size_;
};

constexpr std::array kPadArguments{
    OpArgument{"field", "text", "", "a sequence, an array or an image"},
    OpArgument{"size", "numbers", "",
               "length of a sequence; of more dimensions the first so many; height and width"},
    OpArgument{"value", "number", "0", "of what is added, behind and below what is there"},
    OpArgument{"mask", "text", "''",
               "name of a new bool field: true where the sequence is real; empty: none"},
    OpArgument{"truncate", "flag", "false", "cut off what is longer; else it is an error"},
    OpArgument{"center", "flag", "false", "half of what is added goes before and above"},
};

Result<std::unique_ptr<Step>> make_pad(const Arguments& arguments, const DecodeOptions& decode) {
  const auto& size = arguments.numbers("size");
  if (size.empty()) return fail(ErrorCode::kInvalidArgument, "size: at least one number");
  for (const double n : size)
    if (n < 1 || n > kLengthMax || n != static_cast<double>(static_cast<uint64_t>(n)))
      return fail(ErrorCode::kInvalidArgument, "size {}: whole, 1 to {}", n, kLengthMax);
  double elements = 1;  // of a byte at least
  for (const double n : size) elements *= n;
  if (elements / 4 > static_cast<double>(decode.pixels_max))
    return fail(ErrorCode::kInvalidArgument, "size: {} elements; the limit is {} bytes", elements,
                4 * decode.pixels_max);
  return make_step<Pad>(arguments);
}

// --- one_hot ---

class OneHot : public Step {
 public:
  OneHot(const Arguments& arguments, ElementType type)
      : field_(arguments.text("field")),
        classes_(static_cast<uint64_t>(arguments.integer("classes"))),
        smoothing_(arguments.number("smoothing")),
        type_(type) {}

  Status run(SampleState& state) const override {
    Value* value = FB_TRY(state.array(field_));
    if (!is_number(value->type) || is_float(value->type))
      return fail(ErrorCode::kInvalidArgument, "field '{}' holds {}; classes are integers", field_,
                  formats::element_name(value->type));
    const uint64_t count = element_count(value->shape);
    std::vector<int64_t> labels(count);
    FB_TRY(convert_elements(value->type, value->bytes.data(), count, ElementType::kI64,
                            reinterpret_cast<std::byte*>(labels.data())));
    SampleState::NewArray array{type_, value->shape};
    array.shape.push_back(classes_);
    const auto out = FB_TRY(state.take(array));
    const double rest = smoothing_ / static_cast<double>(classes_);
    fill(type_, rest, count * classes_, out.data());
    const size_t item = formats::element_bytes(type_);
    for (uint64_t i = 0; i < count; ++i) {
      if (labels[i] < 0 || static_cast<uint64_t>(labels[i]) >= classes_)
        return fail(ErrorCode::kCorruption, "field '{}': class {} of {}", field_, labels[i],
                    classes_);
      fill(type_, 1 - smoothing_ + rest, 1,
           out.data() + (i * classes_ + static_cast<uint64_t>(labels[i])) * item);
    }
    SampleState::set_array(*value, array, out);
    return {};
  }

 private:
  std::string field_;
  uint64_t classes_;
  double smoothing_;
  ElementType type_;
};

constexpr std::array kOneHotArguments{
    OpArgument{"classes", "int", "", "how many there are; a label beyond is an error"},
    OpArgument{"field", "text", "label", "integers of any shape; the classes become a last axis"},
    OpArgument{"type", "text", "float32", "of the result"},
    OpArgument{"smoothing", "number", "0",
               "0 to 1: share spread evenly over all classes (label smoothing)"},
};

Result<std::unique_ptr<Step>> make_one_hot(const Arguments& arguments, const DecodeOptions&) {
  const int64_t classes = arguments.integer("classes");
  if (classes < 1 || static_cast<double>(classes) > kLengthMax)
    return fail(ErrorCode::kInvalidArgument, "classes {}: 1 to {}", classes, kLengthMax);
  const double smoothing = arguments.number("smoothing");
  const ElementType type = FB_TRY(number_type(arguments.text("type")));
  if (smoothing < 0 || smoothing > 1 || (smoothing > 0 && !is_float(type)))
    return fail(ErrorCode::kInvalidArgument, "smoothing {}: 0 to 1, of a float type", smoothing);
  return make_step<OneHot>(arguments, type);
}

// --- tokens ---

class Tokens : public Step {
 public:
  Tokens(const Arguments& arguments, ElementType type)
      : field_(arguments.text("field")),
        inputs_(arguments.text("inputs")),
        labels_(arguments.text("labels")),
        shifts_(arguments.flag("shift")),
        type_(type) {}

  Status run(SampleState& state) const override {
    Value* value = FB_TRY(find(state));
    const std::string name(value->name);
    value = FB_TRY(state.array(name));
    if (value->shape.size() != 1 || !is_number(value->type) || is_float(value->type))
      return fail(ErrorCode::kInvalidArgument, "field '{}' is no row of integers", name);
    const uint64_t count = value->shape[0];
    if (shifts_ && count < 2)
      return fail(ErrorCode::kInvalidArgument, "field '{}': {} tokens leave nothing to predict",
                  name, count);
    std::span<const std::byte> bytes = value->bytes;
    if (value->type != type_) {
      const auto out = FB_TRY(state.take({type_, {count}}));
      FB_TRY(convert_elements(value->type, bytes.data(), count, type_, out.data()));
      bytes = out;
    }
    if (!shifts_) {
      SampleState::set_array(*value, {type_, {count}}, bytes);
      return {};
    }
    const size_t item = formats::element_bytes(type_);
    SampleState::set_array(*value, {type_, {count - 1}}, bytes.first((count - 1) * item));
    value->name = inputs_;
    Value* labels = FB_TRY(state.add(labels_));
    SampleState::set_array(*labels, {type_, {count - 1}}, bytes.subspan(item));
    return {};
  }

 private:
  Result<Value*> find(SampleState& state) const {
    if (!field_.empty()) return state.get(field_);
    for (Value& value : state.values())
      if (value.kind == Value::Kind::kPart && value.record.encoding == formats::Encoding::kArray &&
          value.record.array.shape.size() + (value.record.sample_axis >= 0 ? 0 : 1) == 2)
        return &value;
    return fail(ErrorCode::kNotFound, "no part is a row of tokens");
  }

  std::string field_, inputs_, labels_;
  bool shifts_;
  ElementType type_;
};

constexpr std::array kTokensArguments{
    OpArgument{"field", "text", "''", "empty: the first part that is a row of numbers"},
    OpArgument{"type", "text", "int64", "of the result"},
    OpArgument{"shift", "flag", "true",
               "make inputs (all but the last) and labels (all but the first) of them"},
    OpArgument{"inputs", "text", "inputs", "name of the field"},
    OpArgument{"labels", "text", "labels", "name of the field"},
};

Result<std::unique_ptr<Step>> make_tokens(const Arguments& arguments, const DecodeOptions&) {
  const ElementType type = FB_TRY(number_type(arguments.text("type")));
  if (arguments.flag("shift") &&
      (arguments.text("inputs").empty() || arguments.text("labels").empty()))
    return fail(ErrorCode::kInvalidArgument, "inputs and labels: names");
  return make_step<Tokens>(arguments, type);
}

}  // namespace

const OpKind kPad{.info = {"pad", "Makes a field as large as all others.", kPadArguments},
                  .make = make_pad};
const OpKind kOneHot{.info = {"one_hot", "Class numbers become vectors.", kOneHotArguments},
                     .make = make_one_hot};
const OpKind kTokens{
    .info = {"tokens", "Tokens of a language model, and what comes next.", kTokensArguments},
    .make = make_tokens};

}  // namespace forebay::ops
