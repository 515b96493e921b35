#include "failure.h"

#include <pybind11/pybind11.h>

#include <exception>
#include <utility>

#include "text.h"

namespace py = pybind11;

namespace forebay::python {

void raise(Error error, std::optional<RecordPlace> place) {
  throw Failure{std::move(error), std::move(place)};
}

void raise(ErrorCode code, std::string message) {
  throw Failure{Error{code, std::move(message)}, {}};
}

namespace {

void set_exception(const Failure& failure) {
  const Error& error = failure.error;
  try {
    const py::object make = py::module_::import("forebay.errors").attr("_from_code");
    py::object exception = make(error_code_name(error.code), shown(error.message));
    if (failure.place) {
      exception.attr("file") = fs_decoded(failure.place->file);
      if (failure.place->record) exception.attr("record") = *failure.place->record;
      if (failure.place->offset) exception.attr("offset") = *failure.place->offset;
    }
    PyErr_SetObject(py::type::handle_of(exception).ptr(), exception.ptr());
  } catch (py::error_already_set& while_making) {
    while_making.restore();
  }
}

}  // namespace

void translate_failures() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(std::move(pointer));
    } catch (const Failure& failure) {
      set_exception(failure);
    }
  });
}

}  // namespace forebay::python
