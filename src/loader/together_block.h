// A file whose samples only come together as one decoded block, for formats that hand out such
// samples one at a time. Private to the loader.
#pragma once

#include <memory>
#include <string_view>

#include "formats/format.h"
#include "loader/buffer_pool.h"

namespace forebay::loader {

// Takes every sample out once, in order, so that the reader unpacks the file once. Bytes that lie
// in `file` stay there, and the block holds on to it; others are copied. A sample that cannot be
// read is an error of that sample. `has_parts`: parts_at() will be asked for, not at().
std::shared_ptr<const formats::DecodedBlock> decode_together(formats::Reader& reader,
                                                             std::string_view path,
                                                             const BufferRef& file,
                                                             const formats::FileIndex& index,
                                                             bool has_parts);

}  // namespace forebay::loader
