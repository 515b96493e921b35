// The parts of forebay._native, one for each bound room.
#pragma once

#include <pybind11/pybind11.h>

namespace forebay::python {

void bind_loader(pybind11::module_& module);
void bind_ops(pybind11::module_& module);
void bind_config(pybind11::module_& module);
void bind_checkpoint(pybind11::module_& module);

}  // namespace forebay::python
