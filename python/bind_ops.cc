// forebay._native.op_table(): what forebay/ops.py is made from.
#include <string>

#include "bind.h"
#include "ops/pipeline.h"

namespace py = pybind11;

namespace forebay::python {
namespace {

py::list op_table() {
  py::list table;
  for (const ops::OpInfo& info : ops::op_table()) {
    py::list arguments;
    for (const ops::OpArgument& argument : info.arguments) {
      arguments.append(py::dict(py::arg("name") = std::string(argument.name),
                                py::arg("type") = std::string(argument.type),
                                py::arg("fallback") = std::string(argument.fallback),
                                py::arg("help") = std::string(argument.help)));
    }
    table.append(py::dict(py::arg("name") = std::string(info.name),
                          py::arg("summary") = std::string(info.summary),
                          py::arg("arguments") = arguments, py::arg("is_random") = info.is_random));
  }
  return table;
}

}  // namespace

void bind_ops(py::module_& module) {
  module.def("op_table", &op_table);
}

}  // namespace forebay::python
