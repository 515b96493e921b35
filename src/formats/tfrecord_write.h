// Writes TFRecord files of tf.train.Example messages {image: bytes, size: int64}, as DLIO does.
#pragma once

#include <cstdint>

#include "formats/format.h"

namespace forebay::formats {

Status write_tfrecord(storage::Writer& writer, bool can_patch, const FileSpec& spec);

// Exact unless compressed.
uint64_t tfrecord_bytes(const FileSpec& spec);

}  // namespace forebay::formats
