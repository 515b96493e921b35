// Text of the engine's as Python's str. Messages and names quote foreign bytes, which need not be
// UTF-8.
//
// With the GIL held.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

namespace forebay::python {

// As os.fsdecode has it: a byte that is not UTF-8 becomes a lone surrogate, and fs_encoded() gives
// the same bytes back. For names and paths.
pybind11::str fs_decoded(std::string_view text);

// Such a byte becomes U+FFFD: text to be shown. For messages.
pybind11::str shown(std::string_view text);

// The bytes of a str; surrogates of fs_decoded() become what they were. A TypeError for others.
std::string fs_encoded(const pybind11::handle& text);

}  // namespace forebay::python
