// Undoes the compression of a whole file, piece by piece: gzip, bzip2, xz, and zip archives of one
// member. Which one it is, is known by the first bytes.
//
// Functions are safe to call from any thread; a source belongs to one.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "forebay/result.h"
#include "formats/byte_source.h"
#include "formats/format.h"

namespace forebay::formats {

// Six bytes are enough. kNone for bytes that none of them begins with.
Compression packing_of(std::span<const std::byte> head);

// Hands what is packed in `source` to `sink`, in order, and checks every checksum there is. Memory
// does not grow with the file. kCorruption for damaged or cut streams, kUnsupported past 64 GiB.
Status unpack(ByteSource& source, Compression packing,
              const std::function<Status(std::span<const std::byte>)>& sink);

}  // namespace forebay::formats
