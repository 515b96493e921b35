// Types of the HDF5 library <-> element types.
//
// Call with a Hdf5Lock held.
#pragma once

#include "forebay/result.h"
#include "formats/format.h"
#include "formats/hdf5_library.h"

namespace forebay::formats {

struct Hdf5Element {
  ElementType type = ElementType::kU8;
  bool is_big_endian = false;
};

// kUnsupported with the kind of the type: "compound", "variable-length string". h5py's booleans and
// complex numbers are known; other enumerations and bit fields are their integers.
Result<Hdf5Element> element_of(hid_t type);

// As h5py would write it, little-endian.
Hdf5Handle make_hdf5_type(ElementType type);

}  // namespace forebay::formats
