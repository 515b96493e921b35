// How many bytes a file takes that a format would write. Formats that compress can only bound it.
//
// Functions are safe to call from any thread. Sizes are bytes.
#pragma once

#include <cstdint>

#include "forebay/result.h"
#include "formats/format.h"

namespace forebay::dataset {

struct FileMeasure {
  uint64_t bytes = 0;  // as written
  uint64_t bound = 0;  // Format::estimate_bytes

  bool is_exact() const { return bytes == bound; }
  // Of other files of the same kind: their bounds, times this.
  double share() const {
    return bound == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(bound);
  }
};

// Writes the file into nothing, which takes as long as making it.
Result<FileMeasure> measure_file(const formats::Format& format, const formats::FileSpec& spec,
                                 bool can_patch);

}  // namespace forebay::dataset
