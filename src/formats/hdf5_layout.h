// How the samples of an HDF5 file lie in its chunks: what `FileIndex::detail` holds, and its
// blocks.
//
// A sample is its row (index on the first axis) in each of the file's data sets, one after the
// other. A contiguous data set counts as chunks of one row without filters. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "formats/format.h"
#include "formats/hdf5_filters.h"

namespace forebay::formats {

struct Hdf5Dataset {
  std::string name{};           // as it was asked for
  ArrayLayout array;            // shape[0] counts samples
  std::vector<uint64_t> chunk;  // as many dimensions; none is 0
  bool is_contiguous = false;
  std::vector<Hdf5FilterStep> filters;
  bool skips_partial_chunks = false;  // chunks that stick out of the shape are not filtered
  std::vector<std::byte> fill;        // one element as the file has it; empty = zeros

  uint64_t samples() const { return array.shape.empty() ? 0 : array.shape.front(); }
  uint64_t row_bytes() const;             // of one sample
  uint64_t chunk_bytes() const;           // without filters
  uint64_t chunks_per_row() const;        // chunks side by side in one step of the first axis
  uint64_t chunk_rows() const;            // steps of the first axis
  bool has_whole_row_chunks() const;      // every sample is one range of bytes of one chunk
  bool is_partial(uint64_t chunk) const;  // sticks out of the shape
};

// Where one chunk lies; chunks are numbered in row-major order.
struct Hdf5Chunk {
  Extent extent;         // length 0: never written, holds the fill value
  uint32_t skipped = 0;  // filters left out, bit i for filter i
  bool is_missing() const { return extent.length == 0; }
};

// Consecutive chunks that are not as usual.
struct Hdf5Exception {
  uint32_t dataset = 0;
  bool is_missing = false;
  uint32_t skipped = 0;
  uint64_t first = 0, count = 0;
};

struct Hdf5Layout {
  std::vector<Hdf5Dataset> datasets;
  std::vector<Hdf5Exception> exceptions;  // by data set, then by chunk

  uint64_t sample_bytes() const;
  // kUnsupported when the samples of all data sets together pass 2^62 bytes.
  Status check_size() const;
  // kUnsupported when the rows of the data sets do not make one array.
  Result<ArrayLayout> sample_array() const;
};

std::string encode_layout(const Hdf5Layout& layout);
Result<Hdf5Layout> decode_layout(std::string_view detail);

// A data set and its chunks, as metadata tell it.
struct Hdf5Source {
  std::string name;
  Hdf5Dataset dataset;
  std::vector<Hdf5Chunk> chunks;  // all of the grid; contiguous: one for the whole data set
};

// Extents where every sample is a range of bytes (`detail` is then the name of the data set), else
// blocks. Checks every length against `file_bytes`. `must_join`: kUnsupported for data sets whose
// rows make no one array, which only come as parts.
Result<FileIndex> index_sources(std::vector<Hdf5Source> sources, uint64_t file_bytes,
                                bool must_join = true);

}  // namespace forebay::formats
