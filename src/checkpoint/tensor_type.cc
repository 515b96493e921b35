#include "checkpoint/tensor_type.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace forebay::checkpoint {
namespace {

struct Row {
  TensorType type;
  uint64_t bytes;
  std::string_view file_name, array_name;
};

constexpr Row kTypes[] = {
    {TensorType::kBool, 1, "BOOL", "bool"},
    {TensorType::kU8, 1, "U8", "uint8"},
    {TensorType::kI8, 1, "I8", "int8"},
    {TensorType::kF8E5M2, 1, "F8_E5M2", "float8_e5m2"},
    {TensorType::kF8E4M3, 1, "F8_E4M3", "float8_e4m3fn"},
    {TensorType::kU16, 2, "U16", "uint16"},
    {TensorType::kI16, 2, "I16", "int16"},
    {TensorType::kF16, 2, "F16", "float16"},
    {TensorType::kBF16, 2, "BF16", "bfloat16"},
    {TensorType::kU32, 4, "U32", "uint32"},
    {TensorType::kI32, 4, "I32", "int32"},
    {TensorType::kF32, 4, "F32", "float32"},
    {TensorType::kU64, 8, "U64", "uint64"},
    {TensorType::kI64, 8, "I64", "int64"},
    {TensorType::kF64, 8, "F64", "float64"},
    {TensorType::kC64, 8, "C64", "complex64"},
};

const Row& row_of(TensorType type) {
  const Row& row = kTypes[static_cast<size_t>(type)];
  FB_DCHECK(row.type == type);
  return row;
}

std::optional<TensorType> find(std::string_view Row::*name, std::string_view wanted) {
  const auto* const row =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const Row& candidate) { return candidate.*name == wanted; });
  if (row == std::end(kTypes)) return std::nullopt;
  return row->type;
}

}  // namespace

uint64_t element_bytes(TensorType type) {
  return row_of(type).bytes;
}

std::string_view file_name_of(TensorType type) {
  return row_of(type).file_name;
}

std::string_view array_name_of(TensorType type) {
  return row_of(type).array_name;
}

std::optional<TensorType> type_from_file_name(std::string_view name) {
  return find(&Row::file_name, name);
}

std::optional<TensorType> type_from_array_name(std::string_view name) {
  return find(&Row::array_name, name);
}

Result<uint64_t> tensor_bytes(TensorType type, std::span<const uint64_t> shape) {
  constexpr uint64_t kBytesMax = uint64_t{1} << 63;
  // A side of 0 makes any shape empty, also one whose other sides would be too much.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return uint64_t{0};
  uint64_t bytes = element_bytes(type);
  for (const uint64_t side : shape) {
    if (side > kBytesMax / bytes)
      return fail(ErrorCode::kInvalidArgument, "{} of shape {} is too large", file_name_of(type),
                  fmt::format("[{}]", fmt::join(shape, ", ")));
    bytes *= side;
  }
  return bytes;
}

}  // namespace forebay::checkpoint
