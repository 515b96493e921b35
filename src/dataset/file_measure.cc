#include "dataset/file_measure.h"

#include "base/error.h"
#include "dataset/generation_writer.h"

namespace forebay::dataset {

Result<FileMeasure> measure_file(const formats::Format& format, const formats::FileSpec& spec,
                                 bool can_patch) {
  CountingWriter counter;
  FB_TRY(format.write(counter, can_patch, spec));
  return FileMeasure{.bytes = counter.bytes(), .bound = format.estimate_bytes(spec)};
}

}  // namespace forebay::dataset
