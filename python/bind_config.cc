// forebay._native.read_yaml(): a YAML document as dicts, lists and scalars, so that the package
// needs no library of its own for it.
#include <yaml-cpp/yaml.h>

#include <string>

#include "base/units.h"
#include "bind.h"
#include "failure.h"

namespace py = pybind11;

namespace forebay::python {
namespace {

// Plain scalars have YAML's types, quoted ones are text.
py::object scalar(const YAML::Node& node) {
  if (node.Tag() == "!") return py::str(node.Scalar());
  bool flag = false;
  if (YAML::convert<bool>::decode(node, flag)) return py::bool_(flag);
  int64_t whole = 0;
  if (YAML::convert<int64_t>::decode(node, whole)) return py::int_(whole);
  double number = 0;
  if (YAML::convert<double>::decode(node, number)) return py::float_(number);
  return py::str(node.Scalar());
}

py::object value_of(const YAML::Node& node) {
  if (node.IsSequence()) {
    py::list list;
    for (const YAML::Node& item : node) list.append(value_of(item));
    return list;
  }
  if (node.IsMap()) {
    py::dict dict;
    for (const auto& item : node) {
      const py::str key(item.first.Scalar());
      if (dict.contains(key))
        raise(ErrorCode::kInvalidArgument,
              "the key " + item.first.Scalar() + " stands there twice");
      dict[key] = value_of(item.second);
    }
    return dict;
  }
  return node.IsScalar() ? scalar(node) : py::none();
}

py::object read_yaml(const std::string& text) {
  try {
    return value_of(YAML::Load(text));
  } catch (const YAML::Exception& exception) {
    raise(ErrorCode::kInvalidArgument, exception.what());
  }
}

}  // namespace

void bind_config(py::module_& module) {
  module.def("read_yaml", &read_yaml);
  module.def("parse_bytes", [](const std::string& text) { return take(base::parse_bytes(text)); });
  module.def("parse_bytes_per_second",
             [](const std::string& text) { return take(base::parse_bytes_per_second(text)); });
}

}  // namespace forebay::python
