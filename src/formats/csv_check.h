// Checks plain CSV text as it passes: every line and field, nothing kept.
#pragma once

#include <memory>

#include "formats/format.h"

namespace forebay::formats {

// Compressed files are kUnsupported in passing. The verdict is that of reading the file whole.
std::unique_ptr<StreamCheck> make_csv_check();

}  // namespace forebay::formats
