// Writes TFRecord files of tf.train.Example messages {image: bytes, size: int64}, as DLIO does.
#pragma once

#include <cstdint>

#include "formats/format.h"

namespace forebay::formats {

Status write_tfrecord(storage::Writer& writer, bool can_patch, const FileSpec& spec);

// The side file: a line "offset size" for each record, framing included. `which` is 0.
Status write_tfrecord_index(storage::Writer& writer, const FileSpec& spec, size_t which);

// Exact unless compressed.
uint64_t tfrecord_bytes(const FileSpec& spec);

}  // namespace forebay::formats
