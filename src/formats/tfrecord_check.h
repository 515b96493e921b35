// Checks plain TFRecord bytes as they pass: both CRCs of every record.
#pragma once

#include <memory>

#include "formats/format.h"

namespace forebay::formats {

// Compressed files are kUnsupported in passing.
std::unique_ptr<StreamCheck> make_tfrecord_check();

}  // namespace forebay::formats
