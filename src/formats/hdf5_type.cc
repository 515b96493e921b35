#include "formats/hdf5_type.h"

#include <cstring>
#include <string>

#include "base/error.h"

namespace forebay::formats {
namespace {

Error refuse(std::string_view what) {
  return fail(ErrorCode::kUnsupported, "elements of type {}; numbers only are read", what);
}

Result<ElementType> integer_type(size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? ElementType::kI8 : ElementType::kU8;
    case 2:
      return is_signed ? ElementType::kI16 : ElementType::kU16;
    case 4:
      return is_signed ? ElementType::kI32 : ElementType::kU32;
    case 8:
      return is_signed ? ElementType::kI64 : ElementType::kU64;
    default:
      return refuse(fmt::format("integer of {} bytes", bytes));
  }
}

Result<ElementType> float_type(hid_t type) {
  size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0)
    return hdf5_error(ErrorCode::kCorruption, "a type of floating-point numbers");
  const size_t bytes = H5Tget_size(type);
  const size_t bias = H5Tget_ebias(type);
  const auto is = [&](size_t size, size_t wanted_exponent_bits) {
    return bytes == size && sign == size * 8 - 1 && exponent_bits == wanted_exponent_bits &&
           mantissa == 0 && mantissa_bits == size * 8 - 1 - wanted_exponent_bits &&
           exponent == mantissa_bits && bias == (size_t{1} << (wanted_exponent_bits - 1)) - 1;
  };
  if (is(2, 5)) return ElementType::kF16;
  if (is(4, 8)) return ElementType::kF32;
  if (is(8, 11)) return ElementType::kF64;
  return refuse(
      fmt::format("floating point of {} bytes that is not IEEE half, single or double", bytes));
}

// Values that fill their bytes.
bool has_padding(hid_t type) {
  return H5Tget_offset(type) != 0 || H5Tget_precision(type) != H5Tget_size(type) * 8;
}

bool is_member(hid_t type, unsigned index, std::string_view name) {
  char* text = H5Tget_member_name(type, index);
  const bool is_same = text != nullptr && name == text;
  H5free_memory(text);
  return is_same;
}

bool is_boolean(hid_t type) {
  int8_t no = -1, yes = -1;
  return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && is_member(type, 0, "FALSE") &&
         is_member(type, 1, "TRUE") && H5Tget_member_value(type, 0, &no) >= 0 &&
         H5Tget_member_value(type, 1, &yes) >= 0 && no == 0 && yes == 1;
}

Result<Hdf5Element> complex_of(hid_t type) {
  const bool looks_so = H5Tget_nmembers(type) == 2 && is_member(type, 0, "r") &&
                        is_member(type, 1, "i") && H5Tget_member_offset(type, 0) == 0;
  if (!looks_so) return refuse("compound");
  const Hdf5Handle real(H5Tget_member_type(type, 0), H5Tclose);
  const Hdf5Handle imaginary(H5Tget_member_type(type, 1), H5Tclose);
  if (!real.is_open() || !imaginary.is_open() || H5Tequal(real.id(), imaginary.id()) <= 0 ||
      H5Tget_class(real.id()) != H5T_FLOAT)
    return refuse("compound");
  Hdf5Element element = FB_TRY(element_of(real.id()));
  const size_t half = H5Tget_size(real.id());
  if (H5Tget_member_offset(type, 1) != half || H5Tget_size(type) != 2 * half)
    return refuse("compound");
  if (element.type == ElementType::kF16) return refuse("complex of half precision");
  element.type = element.type == ElementType::kF32 ? ElementType::kC64 : ElementType::kC128;
  return element;
}

}  // namespace

Result<Hdf5Element> element_of(hid_t type) {
  Hdf5Element element;
  const H5T_class_t kind = H5Tget_class(type);
  const H5T_order_t order = H5Tget_order(type);
  H5Eclear2(H5E_DEFAULT);
  element.is_big_endian = order == H5T_ORDER_BE;
  switch (kind) {
    case H5T_INTEGER:
    case H5T_BITFIELD:
    case H5T_FLOAT:
      if (order != H5T_ORDER_LE && order != H5T_ORDER_BE) return refuse("VAX byte order");
      if (has_padding(type)) return refuse("numbers with padding bits");
      element.type = FB_TRY(
          kind == H5T_FLOAT ? float_type(type)
                            : integer_type(H5Tget_size(type),
                                           kind == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_2));
      return element;
    case H5T_ENUM: {
      const Hdf5Handle base(H5Tget_super(type), H5Tclose);
      if (!base.is_open()) return hdf5_error(ErrorCode::kCorruption, "an enumeration");
      element = FB_TRY(element_of(base.id()));
      if (is_boolean(type)) element.type = ElementType::kBool;
      return element;
    }
    case H5T_COMPOUND:
      return complex_of(type);
    case H5T_STRING:
      return refuse(H5Tis_variable_str(type) > 0 ? "variable-length string" : "string");
    case H5T_VLEN:
      return refuse("variable-length sequence");
    case H5T_REFERENCE:
      return refuse("reference");
    case H5T_OPAQUE:
      return refuse("opaque");
    case H5T_ARRAY:
      return refuse("array");
    case H5T_TIME:
      return refuse("time");
    default:
      return hdf5_error(ErrorCode::kCorruption, "a type of no known class");
  }
}

namespace {

Hdf5Handle make_boolean() {
  Hdf5Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
  const int8_t no = 0, yes = 1;
  H5Tenum_insert(type.id(), "FALSE", &no);
  H5Tenum_insert(type.id(), "TRUE", &yes);
  return type;
}

Hdf5Handle make_complex(hid_t half) {
  const size_t bytes = H5Tget_size(half);
  Hdf5Handle type(H5Tcreate(H5T_COMPOUND, 2 * bytes), H5Tclose);
  H5Tinsert(type.id(), "r", 0, half);
  H5Tinsert(type.id(), "i", bytes, half);
  return type;
}

Hdf5Handle make_half_precision() {
  Hdf5Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  H5Tset_fields(type.id(), 15, 10, 5, 0, 10);
  H5Tset_size(type.id(), 2);
  H5Tset_ebias(type.id(), 15);
  return type;
}

}  // namespace

Hdf5Handle make_hdf5_type(ElementType type) {
  const auto copy = [](hid_t known) { return Hdf5Handle(H5Tcopy(known), H5Tclose); };
  switch (type) {
    case ElementType::kU8:
      return copy(H5T_STD_U8LE);
    case ElementType::kU16:
      return copy(H5T_STD_U16LE);
    case ElementType::kU32:
      return copy(H5T_STD_U32LE);
    case ElementType::kU64:
      return copy(H5T_STD_U64LE);
    case ElementType::kI8:
      return copy(H5T_STD_I8LE);
    case ElementType::kI16:
      return copy(H5T_STD_I16LE);
    case ElementType::kI32:
      return copy(H5T_STD_I32LE);
    case ElementType::kI64:
      return copy(H5T_STD_I64LE);
    case ElementType::kF16:
      return make_half_precision();
    case ElementType::kF32:
      return copy(H5T_IEEE_F32LE);
    case ElementType::kF64:
      return copy(H5T_IEEE_F64LE);
    case ElementType::kBool:
      return make_boolean();
    case ElementType::kC64:
      return make_complex(H5T_IEEE_F32LE);
    case ElementType::kC128:
      return make_complex(H5T_IEEE_F64LE);
    case ElementType::kBF16:
      break;
  }
  return {};
}

}  // namespace forebay::formats
