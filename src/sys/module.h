// Optional parts of the program: shared objects that are loaded when asked for, so that the program
// itself starts without the libraries they need.
//
// Safe to call from any thread. A module stays loaded until the process ends.
#pragma once

#include <string>
#include <string_view>

#include "forebay/result.h"

namespace forebay::sys {

// The address of the C function `symbol` in the module `name` ("mpi"), file forebay_<name>.so.
// Looked for in the folder FOREBAY_MODULE_FOLDER, then beside the program: <bin>/../lib/forebay,
// and where the program was installed to. kNotFound when no folder has it; kUnsupported with the
// loader's message when a library it needs is missing.
Result<void*> find_in_module(std::string_view name, const char* symbol);

// The address of `symbol` in the library `path`, whose other symbols nothing is bound to.
Result<void*> find_in_library(const std::string& path, const char* symbol);

// The path of a file that is installed beside the modules, absolute; looked for in the same
// folders.
Result<std::string> find_module_file(std::string_view file);

}  // namespace forebay::sys
