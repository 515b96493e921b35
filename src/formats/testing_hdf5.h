// Reads all samples of an HDF5 file as a loader does, for tests and fuzzers.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/builtin.h"
#include "storage/store.h"

namespace forebay::formats {

struct AllSamples {
  ArrayLayout array;             // first axis: samples
  std::vector<std::byte> bytes;  // little-endian
};

inline void to_little_endian(ArrayLayout& array, std::span<std::byte> bytes) {
  if (!array.is_big_endian) return;
  const bool is_complex = array.type == ElementType::kC64 || array.type == ElementType::kC128;
  const size_t unit = element_bytes(array.type) / (is_complex ? 2 : 1);
  for (size_t at = 0; at + unit <= bytes.size(); at += unit)
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(at),
                 bytes.begin() + static_cast<ptrdiff_t>(at + unit));
  array.is_big_endian = false;
}

// Bytes of `extents` from the store, one after the other.
inline Result<std::vector<std::byte>> read_extents(storage::Store& store, std::string_view path,
                                                   const std::vector<Extent>& extents) {
  std::vector<std::byte> bytes;
  for (const Extent& extent : extents) {
    std::vector<std::byte> part(extent.length);
    part.resize(FB_TRY(store.read_at(path, extent.offset, part)));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

inline Result<AllSamples> read_all_samples(storage::Store& store, std::string_view path,
                                           const FormatOptions& options) {
  const storage::FileInfo file = FB_TRY(store.stat(path));
  const FileIndex index = FB_TRY(kHdf5.index(store, file, options));
  const auto reader = kHdf5.make_reader(options);
  AllSamples all;
  const auto add = [&all](const Record& record) {
    all.array = record.array;
    all.bytes.insert(all.bytes.end(), record.bytes.begin(), record.bytes.end());
  };
  for (size_t i = 0; i < index.extents.size(); ++i) {
    const auto bytes = FB_TRY(read_extents(store, path, {index.extents[i]}));
    add(FB_TRY(reader->read(path, bytes, index, i)));
  }
  for (const Block& block : index.blocks) {
    const auto bytes = FB_TRY(read_extents(store, path, block.extents));
    const auto decoded = FB_TRY(reader->decode_block(path, bytes, index, block));
    for (uint64_t i = 0; i < block.sample_count; ++i) add(FB_TRY(decoded->at(i)));
  }
  all.array.shape.insert(all.array.shape.begin(), index.sample_count);
  to_little_endian(all.array, all.bytes);
  return all;
}

}  // namespace forebay::formats
