// The module forebay._native. People use the package around it, python/forebay.
#include "bind.h"
#include "failure.h"
#include "fork_guard.h"

PYBIND11_MODULE(_native, module) {
  forebay::python::fork_depth();
  forebay::python::translate_failures();
  forebay::python::bind_loader(module);
  forebay::python::bind_ops(module);
  forebay::python::bind_config(module);
  forebay::python::bind_checkpoint(module);
}
