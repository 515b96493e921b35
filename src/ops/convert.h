// Numbers from one element type to another. Integers are clamped to the range of their new type,
// fractions cut off, floats rounded to the nearest even.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "forebay/result.h"
#include "formats/format.h"

namespace forebay::ops {

bool is_number(formats::ElementType type);  // neither complex nor anything else without an order
bool is_float(formats::ElementType type);

uint16_t half_from_float(float value);
float float_from_half(uint16_t bits);
uint16_t bfloat_from_float(float value);
float float_from_bfloat(uint16_t bits);

// `from` and `to` hold `count` elements; kUnsupported for complex numbers.
Status convert_elements(formats::ElementType from_type, const std::byte* from, size_t count,
                        formats::ElementType to_type, std::byte* to);
// The same from and to doubles; the type is_number().
void load_elements(formats::ElementType type, const std::byte* from, std::span<double> out);
void store_elements(formats::ElementType type, std::span<const double> values, std::byte* out);

// The numpy names "uint8", "float32" and the short ones "u8", "f32", "bf16". kInvalidArgument, with
// those there are, for others and for complex numbers.
Result<formats::ElementType> number_type(std::string_view name);

}  // namespace forebay::ops
