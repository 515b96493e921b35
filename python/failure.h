// A Result's error on its way to Python: raise() throws it, the translator makes it an exception of
// forebay/errors.py. The only place where codes become exceptions.
//
// With the GIL held.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "forebay/loader.h"
#include "forebay/result.h"

namespace forebay::python {

struct Failure {
  Error error;
  std::optional<RecordPlace> place{};
};

[[noreturn]] void raise(Error error, std::optional<RecordPlace> place = {});
[[noreturn]] void raise(ErrorCode code, std::string message);

// The value, or its error as an exception.
template <class T>
T take(Result<T> result) {
  if (!result.ok()) raise(std::move(result).error());
  return std::move(result).take();
}

// Once, when the module is made.
void translate_failures();

}  // namespace forebay::python
