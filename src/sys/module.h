// Optional parts of the program: shared objects that are loaded when asked for, so that the program
// itself starts without the libraries they need.
//
// Safe to call from any thread. A module stays loaded until the process ends.
#pragma once

#include <string_view>

#include "forebay/result.h"

namespace forebay::sys {

// The address of the C function `symbol` in the module `name` ("mpi"), file forebay_<name>.so.
// Looked for in the folder FOREBAY_MODULE_FOLDER, then beside the program: <bin>/../lib/forebay,
// and where the program was installed to. kNotFound when no folder has it; kUnsupported with the
// loader's message when a library it needs is missing.
Result<void*> find_in_module(std::string_view name, const char* symbol);

}  // namespace forebay::sys
