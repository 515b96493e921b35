// Batches as Python sees them: a dict of numpy arrays that view the batch's memory, of lists of str
// and of bytes.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "forebay/loader.h"

namespace forebay::python {

// With the GIL held. The arrays are writable and keep their memory alive by themselves: neither the
// batch nor its loader has to outlive them. `pads` adds "__valid__": which samples are real.
pybind11::dict to_dict(const Batch& batch, bool pads);

// An array over memory that `owner` keeps alive; `type` is numpy's name.
pybind11::array array_over(std::string_view type, std::span<const uint64_t> shape,
                           const std::byte* bytes, const std::shared_ptr<const void>& owner);

// Loads numpy, which else the first batch would do: in the middle of a loop, where Ctrl-C comes.
void load_numpy();

}  // namespace forebay::python
