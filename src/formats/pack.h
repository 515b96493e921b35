// Compresses a whole file as it is written: gzip, bzip2, xz. A zip archive needs headers around its
// data; see zip_write.h.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "forebay/result.h"
#include "formats/deflate.h"
#include "formats/format.h"
#include "storage/store.h"

namespace forebay::formats {

class Packer {
 public:
  virtual ~Packer() = default;
  // `is_last` ends the stream; `bytes` may then be empty.
  virtual Status run(std::span<const std::byte> bytes, bool is_last, const ByteSink& sink) = 0;
};

// kNone passes bytes on, kZip makes the raw deflate stream of a member. Null for kLzf.
std::unique_ptr<Packer> make_packer(Compression compression);

// Appends all that `fill` gives to its sink, compressed.
Status write_packed(storage::Writer& writer, Compression compression,
                    const std::function<Status(const ByteSink&)>& fill);

// No input of `bytes` bytes becomes more than this.
uint64_t packed_bytes_max(Compression compression, uint64_t bytes);

}  // namespace forebay::formats
