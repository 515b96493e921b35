// Chunks -> samples: the bytes of a block, with filters undone and put in their places.
//
// A decoder belongs to one thread at a time; the blocks it makes are independent of it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "formats/format.h"
#include "formats/hdf5_filters.h"
#include "formats/hdf5_layout.h"

namespace forebay::formats {

class Hdf5BlockDecoder {
 public:
  // As Reader::decode_block, without a file name in errors.
  Result<std::shared_ptr<const DecodedBlock>> decode(std::span<const std::byte> bytes,
                                                     const FileIndex& index, const Block& block);

 private:
  Status use_layout(const std::string& detail);
  Status decode_dataset(size_t number, const Block& block, std::span<const std::byte>& bytes,
                        size_t& extent, std::span<std::byte> samples, uint64_t offset);

  std::string detail_;  // that of `layout_`, which most files of a data set share
  Hdf5Layout layout_;
  Result<ArrayLayout> sample_ = ArrayLayout();  // of all data sets, or why they make none
  Hdf5Unfilter unfilter_;
  ByteBuffer chunk_;
};

}  // namespace forebay::formats
