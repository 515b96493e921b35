// What one element of a tensor is, in safetensors' words and numpy's.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "forebay/result.h"

namespace forebay::checkpoint {

enum class TensorType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64,
  kC64,
};

uint64_t element_bytes(TensorType type);
std::string_view file_name_of(TensorType type);   // safetensors' name: "BF16"
std::string_view array_name_of(TensorType type);  // numpy's or ml_dtypes' name: "bfloat16"
std::optional<TensorType> type_from_file_name(std::string_view name);
std::optional<TensorType> type_from_array_name(std::string_view name);

// Of a tensor of this shape; kInvalidArgument when that is more than 2^63.
Result<uint64_t> tensor_bytes(TensorType type, std::span<const uint64_t> shape);

}  // namespace forebay::checkpoint
