// Runs C++ without the GIL.
#pragma once

#include <pybind11/pybind11.h>

namespace forebay::python {

// `function` must neither touch Python nor throw. Not a destructor that takes the GIL back: a
// daemon thread that asks for it while the interpreter ends is unwound from there, which no
// destructor survives.
template <class Function>
auto without_gil(const Function& function) {
  PyThreadState* const state = PyEval_SaveThread();
  auto result = function();
  PyEval_RestoreThread(state);
  return result;
}

}  // namespace forebay::python
