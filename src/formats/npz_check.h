// Checks npz bytes as they pass: CRCs while the bytes are in the cache, array headers, directory.
#pragma once

#include <memory>

#include "formats/format.h"

namespace forebay::formats {

std::unique_ptr<StreamCheck> make_npz_check();

}  // namespace forebay::formats
