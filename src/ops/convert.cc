#include "ops/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

namespace forebay::ops {
namespace {

using formats::ElementType;

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

inline float widen(Half value) {
  return float_from_half(value.bits);
}
inline float widen(Bfloat value) {
  return float_from_bfloat(value.bits);
}
template <class T>
T widen(T value) {
  return value;
}

template <class To, class From>
To to_integer(From value) {
  using Limits = std::numeric_limits<To>;
  if constexpr (std::is_floating_point_v<From>) {
    // Powers of two, so exact in any float: the largest value itself may not be.
    const From top = std::ldexp(From{1}, Limits::digits);
    if (!(value > static_cast<From>(Limits::min()) - 1))
      return std::isnan(value) ? To{} : Limits::min();
    return value < top ? static_cast<To>(value) : Limits::max();
  } else {
    if (std::cmp_less(value, Limits::min())) return Limits::min();
    if (std::cmp_greater(value, Limits::max())) return Limits::max();
    return static_cast<To>(value);
  }
}

template <class To, class From>
To convert_one(From wide) {
  if constexpr (std::is_same_v<To, bool>)
    return wide != From{};
  else if constexpr (std::is_same_v<To, Half>)
    return {half_from_float(static_cast<float>(wide))};
  else if constexpr (std::is_same_v<To, Bfloat>)
    return {bfloat_from_float(static_cast<float>(wide))};
  else if constexpr (std::is_floating_point_v<To>)
    return static_cast<To>(wide);
  else if constexpr (std::is_same_v<From, bool>)
    return static_cast<To>(wide ? 1 : 0);
  else
    return to_integer<To>(wide);
}

template <class From, class To>
void convert_run(const std::byte* from, size_t count, std::byte* to) {
  for (size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    const To result = convert_one<To>(widen(value));
    std::memcpy(to + i * sizeof result, &result, sizeof result);
  }
}

template <class T>
struct Tag {
  using Type = T;
};

// Calls `body` with the C++ type of `type`; false for complex numbers.
template <class Body>
bool with_type(ElementType type, const Body& body) {
  switch (type) {
    case ElementType::kU8:
      return body(Tag<uint8_t>{}), true;
    case ElementType::kU16:
      return body(Tag<uint16_t>{}), true;
    case ElementType::kU32:
      return body(Tag<uint32_t>{}), true;
    case ElementType::kU64:
      return body(Tag<uint64_t>{}), true;
    case ElementType::kI8:
      return body(Tag<int8_t>{}), true;
    case ElementType::kI16:
      return body(Tag<int16_t>{}), true;
    case ElementType::kI32:
      return body(Tag<int32_t>{}), true;
    case ElementType::kI64:
      return body(Tag<int64_t>{}), true;
    case ElementType::kF16:
      return body(Tag<Half>{}), true;
    case ElementType::kBF16:
      return body(Tag<Bfloat>{}), true;
    case ElementType::kF32:
      return body(Tag<float>{}), true;
    case ElementType::kF64:
      return body(Tag<double>{}), true;
    case ElementType::kBool:
      return body(Tag<bool>{}), true;
    case ElementType::kC64:
    case ElementType::kC128:
      break;
  }
  return false;
}

struct ShortName {
  std::string_view name;
  ElementType type;
};
constexpr std::array<ShortName, 12> kShortNames{{{"u8", ElementType::kU8},
                                                 {"u16", ElementType::kU16},
                                                 {"u32", ElementType::kU32},
                                                 {"u64", ElementType::kU64},
                                                 {"i8", ElementType::kI8},
                                                 {"i16", ElementType::kI16},
                                                 {"i32", ElementType::kI32},
                                                 {"i64", ElementType::kI64},
                                                 {"f16", ElementType::kF16},
                                                 {"bf16", ElementType::kBF16},
                                                 {"f32", ElementType::kF32},
                                                 {"f64", ElementType::kF64}}};

}  // namespace

bool is_number(ElementType type) {
  return type != ElementType::kC64 && type != ElementType::kC128;
}

bool is_float(ElementType type) {
  return type == ElementType::kF16 || type == ElementType::kBF16 || type == ElementType::kF32 ||
         type == ElementType::kF64;
}

uint16_t half_from_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // not a number
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // 65536 and more, infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: steps of 2^-24
    const float steps = std::bit_cast<float>(magnitude) * 0x1p24f;
    return sign | static_cast<uint16_t>(std::nearbyint(steps));
  }
  // To the nearest, ties to even; a carry moves into the exponent as it should.
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

float float_from_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

uint16_t bfloat_from_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float float_from_bfloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

Status convert_elements(ElementType from_type, const std::byte* from, size_t count,
                        ElementType to_type, std::byte* to) {
  if (from_type == to_type) {
    if (count > 0) std::memcpy(to, from, count * formats::element_bytes(from_type));
    return {};
  }
  if (!is_number(from_type) || !is_number(to_type))
    return fail(ErrorCode::kUnsupported, "{} does not become {}", formats::element_name(from_type),
                formats::element_name(to_type));
  with_type(from_type, [&](auto from_tag) {
    with_type(to_type, [&](auto to_tag) {
      convert_run<typename decltype(from_tag)::Type, typename decltype(to_tag)::Type>(from, count,
                                                                                      to);
    });
  });
  return {};
}

void load_elements(ElementType type, const std::byte* from, std::span<double> out) {
  FB_CHECK(convert_elements(type, from, out.size(), ElementType::kF64,
                            reinterpret_cast<std::byte*>(out.data()))
               .ok());
}

void store_elements(ElementType type, std::span<const double> values, std::byte* out) {
  FB_CHECK(convert_elements(ElementType::kF64, reinterpret_cast<const std::byte*>(values.data()),
                            values.size(), type, out)
               .ok());
}

Result<ElementType> number_type(std::string_view name) {
  for (const ShortName& known : kShortNames)
    if (known.name == name) return known.type;
  const auto type = formats::element_from_name(name);
  if (type && is_number(*type)) return *type;
  std::array<std::string_view, 13> names;
  for (size_t i = 0; i < kShortNames.size(); ++i)
    names[i] = formats::element_name(kShortNames[i].type);
  names[12] = "bool";
  return fail(ErrorCode::kInvalidArgument, "{}", base::unknown_name_message("type", name, names));
}

}  // namespace forebay::ops
