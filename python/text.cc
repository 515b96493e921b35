#include "text.h"

namespace py = pybind11;

namespace forebay::python {
namespace {

py::str decode(std::string_view text, const char* errors) {
  PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), errors);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(made);
}

}  // namespace

py::str fs_decoded(std::string_view text) {
  return decode(text, "surrogateescape");
}

py::str shown(std::string_view text) {
  return decode(text, "replace");
}

std::string fs_encoded(const py::handle& text) {
  if (!PyUnicode_Check(text.ptr())) throw py::type_error("text is due");
  PyObject* made = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape");
  if (made == nullptr) throw py::error_already_set();
  return std::string(py::reinterpret_steal<py::bytes>(made));
}

}  // namespace forebay::python
