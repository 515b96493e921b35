#include "ops/step.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "ops/convert.h"

namespace forebay::ops {

using formats::ElementType;
using formats::Encoding;

SampleState::SampleState(Workspace& workspace, const SampleKey& key,
                         std::span<const formats::Part> parts)
    : workspace_(workspace), key_(key) {
  values_.reserve(parts.size() + 4);
  for (const formats::Part& part : parts) {
    Value& value = values_.emplace_back();
    value.name = part.name;
    value.record = part.record;
  }
}

base::Random SampleState::random() const {
  return base::Random(
      base::derive_seed(base::derive_seed(key_.seed, key_.epoch, key_.sample), place_));
}

Value* SampleState::find(std::string_view name) {
  for (Value& value : values_)
    if (value.name == name) return &value;
  return nullptr;
}

Result<Value*> SampleState::get(std::string_view name) {
  if (Value* value = find(name)) return value;
  std::vector<std::string_view> names;
  for (const Value& value : values_) names.push_back(value.name);
  return fail(ErrorCode::kNotFound, "no field '{}' (there are: {})", name,
              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

Result<Value*> SampleState::array(std::string_view name) {
  Value* value = FB_TRY(get(name));
  if (value->kind == Value::Kind::kImage) {
    const Field field = FB_TRY(finish_image(workspace_, name, value->image, nullptr));
    set_array(*value, {field.type, field.shape}, field.bytes);
  }
  if (value->kind == Value::Kind::kArray) return value;
  if (value->kind != Value::Kind::kPart || value->record.encoding != Encoding::kArray)
    return fail(ErrorCode::kInvalidArgument, "field '{}' is not an array", name);
  // The decoder's own memory serves its next array, too.
  auto& decoder = workspace_.decoder(false, false, false);
  const uint64_t bytes = FB_TRY(decoder.decoded_bytes({}, value->record));
  const Sample plain = FB_TRY(decoder.decode({}, value->record, {}));
  std::span<const std::byte> data = plain.bytes;
  const std::span<const std::byte> source = value->record.bytes;
  const bool is_source =
      !data.empty() && data.data() >= source.data() && data.data() < source.data() + source.size();
  if (!is_source && bytes > 0) {
    const auto memory = FB_TRY(workspace_.take(bytes));
    std::copy(data.begin(), data.end(), memory.begin());
    data = memory;
  }
  set_array(*value, {plain.type, plain.shape}, data);
  return value;
}

Result<Image*> SampleState::image(std::string_view name) {
  Value* value = FB_TRY(get(name));
  if (value->kind == Value::Kind::kImage) return &value->image;
  if (value->kind == Value::Kind::kPart && value->record.encoding != Encoding::kArray)
    return fail(ErrorCode::kInvalidArgument, "field '{}' is no image; decode_image comes first",
                name);
  value = FB_TRY(array(name));
  const auto& shape = value->shape;
  if ((shape.size() != 2 && shape.size() != 3) || !is_number(value->type) ||
      element_count(shape) == 0 || shape[0] > UINT32_MAX || shape[1] > UINT32_MAX)
    return fail(ErrorCode::kInvalidArgument,
                "field '{}' is no image: {} [{}]; one is height x width x channels", name,
                formats::element_name(value->type), fmt::join(shape, ", "));
  const uint64_t channels = shape.size() == 3 ? shape[2] : 1;
  const size_t element_bytes = formats::element_bytes(value->type);
  // Foreign memory may end right behind its last pixel; ours may not.
  const auto memory = FB_TRY(workspace_.take(value->bytes.size()));
  std::copy(value->bytes.begin(), value->bytes.end(), memory.begin());
  const ImageView view{.data = memory.data(),
                       .row_bytes = static_cast<size_t>(shape[1] * channels) * element_bytes,
                       .width = static_cast<uint32_t>(shape[1]),
                       .height = static_cast<uint32_t>(shape[0]),
                       .channels = static_cast<uint32_t>(channels),
                       .step = static_cast<uint32_t>(channels),
                       .type = value->type};
  value->image = image_of(view, true);
  value->kind = Value::Kind::kImage;
  return &value->image;
}

Result<std::span<const std::byte>> SampleState::content(std::string_view name) {
  const Value* value = FB_TRY(get(name));
  if (value->kind == Value::Kind::kText) return value->bytes;
  if (value->kind == Value::Kind::kPart && value->record.encoding != Encoding::kArray)
    return value->record.bytes;
  return fail(ErrorCode::kInvalidArgument, "field '{}' is an array, not bytes", name);
}

void SampleState::set_array(Value& value, const NewArray& array, std::span<const std::byte> bytes) {
  value.kind = Value::Kind::kArray;
  value.type = array.type;
  value.shape = array.shape;
  value.bytes = bytes;
}

Result<std::span<std::byte>> SampleState::take(const NewArray& array) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(element_count(array.shape), formats::element_bytes(array.type),
                             &bytes))
    bytes = UINT64_MAX;
  return workspace_.take(bytes);
}

Result<Value*> SampleState::add(std::string_view name) {
  if (find(name) != nullptr)
    return fail(ErrorCode::kInvalidArgument, "there is a field '{}' already", name);
  Value& value = values_.emplace_back();
  value.name = name;
  return &value;
}

uint64_t element_count(std::span<const uint64_t> shape) {
  uint64_t count = 1;
  bool is_too_many = false;
  for (const uint64_t n : shape) {
    if (n == 0) return 0;
    is_too_many = __builtin_mul_overflow(count, n, &count) || is_too_many;
  }
  return is_too_many ? UINT64_MAX : count;
}

}  // namespace forebay::ops
