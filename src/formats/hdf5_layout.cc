#include "formats/hdf5_layout.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "formats/little_endian.h"

namespace forebay::formats {
namespace {

constexpr uint64_t kSamplesMax = uint64_t{1} << 26;
// As for zip members: deflate cannot do better, and runs of fill values rarely are larger.
constexpr uint64_t kExpansionMax = 1032;
constexpr uint64_t kFillBytesMax = uint64_t{1} << 30;
constexpr uint64_t kDimensionsMax = 32;

uint64_t product(const std::vector<uint64_t>& counts, size_t from) {
  uint64_t total = 1;
  for (size_t i = from; i < counts.size(); ++i) total *= counts[i];
  return total;
}

uint64_t divide_up(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// --- detail ---

class Out {
 public:
  void put(uint64_t value) {
    std::byte bytes[8];
    store_le<uint64_t>(bytes, value);
    text_.append(reinterpret_cast<const char*>(bytes), sizeof bytes);
  }
  void put_all(const std::vector<uint64_t>& values) {
    for (const uint64_t value : values) put(value);
  }
  void text(std::span<const std::byte> bytes) {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class In {
 public:
  explicit In(std::string_view text) : text_(text) {}
  uint64_t get() {
    if (text_.size() < 8) {
      is_short_ = true;
      return 0;
    }
    const auto value = load_le<uint64_t>(reinterpret_cast<const std::byte*>(text_.data()));
    text_.remove_prefix(8);
    return value;
  }
  // A count of things that take at least `bytes` each.
  uint64_t count(uint64_t bytes) {
    const uint64_t n = get();
    if (n <= text_.size() / bytes) return n;
    is_short_ = true;
    return 0;
  }
  std::vector<std::byte> bytes(uint64_t n) {
    const auto* data = reinterpret_cast<const std::byte*>(text_.data());
    std::vector<std::byte> taken(data, data + n);
    text_.remove_prefix(n);
    return taken;
  }
  bool is_good() const { return !is_short_; }
  bool is_at_end() const { return text_.empty(); }

 private:
  std::string_view text_;
  bool is_short_ = false;
};

void encode_dataset(Out& out, const Hdf5Dataset& dataset) {
  out.put(static_cast<uint64_t>(dataset.array.type));
  out.put((dataset.array.is_big_endian ? 1u : 0u) | (dataset.is_contiguous ? 2u : 0u) |
          (dataset.skips_partial_chunks ? 4u : 0u));
  out.put(dataset.array.shape.size());
  out.put_all(dataset.array.shape);
  out.put_all(dataset.chunk);
  out.put(dataset.filters.size());
  for (const Hdf5FilterStep& step : dataset.filters) {
    out.put(static_cast<uint64_t>(step.filter));
    out.put(step.element_bytes);
  }
  out.put(dataset.fill.size());
  out.text(dataset.fill);
  out.put(dataset.name.size());
  out.text(std::as_bytes(std::span(dataset.name)));
}

Hdf5Dataset decode_dataset(In& in) {
  Hdf5Dataset dataset;
  dataset.array.type = static_cast<ElementType>(in.get());
  const uint64_t flags = in.get();
  dataset.array.is_big_endian = (flags & 1) != 0;
  dataset.is_contiguous = (flags & 2) != 0;
  dataset.skips_partial_chunks = (flags & 4) != 0;
  const uint64_t axes = in.count(16);
  for (uint64_t i = 0; i < axes; ++i) dataset.array.shape.push_back(in.get());
  for (uint64_t i = 0; i < axes; ++i) dataset.chunk.push_back(in.get());
  const uint64_t filters = in.count(16);
  for (uint64_t i = 0; i < filters; ++i) {
    const auto filter = static_cast<Hdf5Filter>(in.get());
    dataset.filters.push_back({filter, static_cast<uint32_t>(in.get())});
  }
  dataset.fill = in.bytes(in.count(1));
  const std::vector<std::byte> name = in.bytes(in.count(1));
  dataset.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  return dataset;
}

// What the rest of this file takes for granted.
bool is_valid(const Hdf5Dataset& dataset) {
  const auto& shape = dataset.array.shape;
  if (static_cast<uint64_t>(dataset.array.type) > static_cast<uint64_t>(ElementType::kC128))
    return false;
  if (shape.empty() || shape.size() > kDimensionsMax || dataset.chunk.size() != shape.size())
    return false;
  const auto is_zero = [](uint64_t n) { return n == 0; };
  if (std::any_of(shape.begin(), shape.end(), is_zero)) return false;
  if (std::any_of(dataset.chunk.begin(), dataset.chunk.end(), is_zero)) return false;
  if (!dataset.fill.empty() && dataset.fill.size() != element_bytes(dataset.array.type))
    return false;
  return array_bytes(dataset.array).ok() &&
         array_bytes({.type = dataset.array.type, .shape = dataset.chunk}).ok();
}

}  // namespace

uint64_t Hdf5Dataset::row_bytes() const {
  return element_bytes(array.type) * product(array.shape, 1);
}
uint64_t Hdf5Dataset::chunk_bytes() const {
  return element_bytes(array.type) * product(chunk, 0);
}
uint64_t Hdf5Dataset::chunks_per_row() const {
  uint64_t total = 1;
  for (size_t i = 1; i < chunk.size(); ++i) total *= divide_up(array.shape[i], chunk[i]);
  return total;
}
uint64_t Hdf5Dataset::chunk_rows() const {
  return divide_up(array.shape.front(), chunk.front());
}
bool Hdf5Dataset::has_whole_row_chunks() const {
  return std::equal(chunk.begin() + 1, chunk.end(), array.shape.begin() + 1);
}
bool Hdf5Dataset::is_partial(uint64_t number) const {
  for (size_t i = chunk.size(); i-- > 0;) {
    const uint64_t across = divide_up(array.shape[i], chunk[i]);
    if ((number % across + 1) * chunk[i] > array.shape[i]) return true;
    number /= across;
  }
  return false;
}

uint64_t Hdf5Layout::sample_bytes() const {
  uint64_t total = 0;
  for (const Hdf5Dataset& dataset : datasets) total += dataset.row_bytes();
  return total;
}

Status Hdf5Layout::check_size() const {
  constexpr uint64_t kBytesMax = uint64_t{1} << 62;
  uint64_t total = 0;
  for (const Hdf5Dataset& dataset : datasets) {
    const uint64_t bytes = FB_TRY(array_bytes(dataset.array));
    if (bytes > kBytesMax - total)
      return fail(ErrorCode::kUnsupported, "more than 2^62 bytes of samples");
    total += bytes;
  }
  return {};
}

Result<ArrayLayout> Hdf5Layout::sample_array() const {
  ArrayLayout array = datasets.front().array;
  array.shape.erase(array.shape.begin());
  if (datasets.size() == 1) {
    FB_TRY(array_bytes(datasets.front().array));
    return array;
  }
  if (array.shape.empty()) array.shape.push_back(1);
  uint64_t first_axis = 0;
  for (const Hdf5Dataset& dataset : datasets) {
    auto shape = std::vector<uint64_t>(dataset.array.shape.begin() + 1, dataset.array.shape.end());
    if (shape.empty()) shape.push_back(1);
    if (dataset.array.type != array.type || dataset.array.is_big_endian != array.is_big_endian ||
        !std::equal(shape.begin() + 1, shape.end(), array.shape.begin() + 1, array.shape.end()))
      return fail(ErrorCode::kUnsupported,
                  "the data sets of a record differ in type or shape; they must make one array");
    first_axis += shape.front();
  }
  array.shape.front() = first_axis;
  ArrayLayout all = array;
  all.shape.push_back(datasets.front().samples());
  FB_TRY(array_bytes(all));
  return array;
}

std::string encode_layout(const Hdf5Layout& layout) {
  Out out;
  out.put(layout.datasets.size());
  for (const Hdf5Dataset& dataset : layout.datasets) encode_dataset(out, dataset);
  out.put(layout.exceptions.size());
  for (const Hdf5Exception& exception : layout.exceptions) {
    out.put(uint64_t{exception.dataset} << 1 | (exception.is_missing ? 1 : 0));
    out.put(exception.skipped);
    out.put(exception.first);
    out.put(exception.count);
  }
  return out.take();
}

Result<Hdf5Layout> decode_layout(std::string_view detail) {
  In in(detail);
  Hdf5Layout layout;
  const uint64_t datasets = in.count(40);
  for (uint64_t i = 0; i < datasets && in.is_good(); ++i)
    layout.datasets.push_back(decode_dataset(in));
  const uint64_t exceptions = in.count(32);
  for (uint64_t i = 0; i < exceptions; ++i) {
    Hdf5Exception exception;
    const uint64_t head = in.get();
    exception.dataset = static_cast<uint32_t>(head >> 1);
    exception.is_missing = (head & 1) != 0;
    exception.skipped = static_cast<uint32_t>(in.get());
    exception.first = in.get();
    exception.count = in.get();
    layout.exceptions.push_back(exception);
  }
  if (!in.is_good() || !in.is_at_end() || layout.datasets.empty() ||
      !std::all_of(layout.datasets.begin(), layout.datasets.end(), is_valid))
    return fail(ErrorCode::kInvalidArgument, "the index lacks the layout of its chunks");
  return layout;
}

namespace {

// --- blocks ---

bool is_inside(const Extent& extent, uint64_t file_bytes) {
  return extent.length <= file_bytes && extent.offset <= file_bytes - extent.length;
}

Status check_source(const Hdf5Source& source, uint64_t samples, uint64_t file_bytes) {
  const Hdf5Dataset& dataset = source.dataset;
  if (dataset.samples() != samples)
    return fail(ErrorCode::kCorruption, "{} has {} rows, the first data set {}", source.name,
                dataset.samples(), samples);
  for (size_t i = 0; i < source.chunks.size(); ++i) {
    const Extent& extent = source.chunks[i].extent;
    if (!is_inside(extent, file_bytes))
      return fail(ErrorCode::kCorruption,
                  "truncated at byte {}: chunk {} of {} is {} bytes from offset {}", file_bytes, i,
                  source.name, extent.length, extent.offset);
    if (!dataset.is_contiguous && !source.chunks[i].is_missing() && dataset.filters.empty() &&
        extent.length != dataset.chunk_bytes())
      return fail(ErrorCode::kCorruption, "chunk {} of {} has {} bytes instead of {}", i,
                  source.name, extent.length, dataset.chunk_bytes());
  }
  return {};
}

// Every sample is a range of the file: no block, and no copy.
bool has_sample_extents(const std::vector<Hdf5Source>& sources) {
  if (sources.size() != 1) return false;
  const Hdf5Source& only = sources.front();
  return only.dataset.filters.empty() && only.dataset.has_whole_row_chunks() &&
         std::none_of(only.chunks.begin(), only.chunks.end(),
                      [](const Hdf5Chunk& chunk) { return chunk.is_missing(); });
}

FileIndex index_extents(const Hdf5Source& source) {
  const Hdf5Dataset& dataset = source.dataset;
  FileIndex index;
  index.access = Access::kExtents;
  index.detail = source.name;
  index.sample_count = dataset.samples();
  index.extent_array = dataset.array;
  index.extent_array->shape.erase(index.extent_array->shape.begin());
  const uint64_t row = dataset.row_bytes();
  const uint64_t rows_per_chunk = dataset.is_contiguous ? index.sample_count : dataset.chunk[0];
  for (uint64_t i = 0; i < index.sample_count; ++i) {
    const Extent& chunk = source.chunks[i / rows_per_chunk].extent;
    index.extents.push_back({chunk.offset + i % rows_per_chunk * row, row});
  }
  return index;
}

void note_exceptions(const Hdf5Source& source, uint32_t number, Hdf5Layout& layout) {
  const size_t before = layout.exceptions.size();
  for (uint64_t i = 0; i < source.chunks.size(); ++i) {
    const Hdf5Chunk& chunk = source.chunks[i];
    const uint32_t skipped = chunk.is_missing() ? 0 : chunk.skipped;
    if (!chunk.is_missing() && skipped == 0) continue;
    if (layout.exceptions.size() > before) {
      Hdf5Exception& last = layout.exceptions.back();
      if (last.first + last.count == i && last.is_missing == chunk.is_missing() &&
          last.skipped == skipped) {
        ++last.count;
        continue;
      }
    }
    layout.exceptions.push_back(
        {.dataset = number,
         .is_missing = chunk.is_missing(),
         .skipped = skipped,
         .first = i,
         .count = source.dataset.is_contiguous ? source.dataset.samples() : 1});
  }
}

// The bytes of rows [first, first + count), which begin and end with a chunk.
void add_extents(const Hdf5Source& source, uint64_t first, uint64_t count, Block& block) {
  const Hdf5Dataset& dataset = source.dataset;
  if (dataset.is_contiguous) {
    const Hdf5Chunk& whole = source.chunks.front();
    const uint64_t row = dataset.row_bytes();
    if (!whole.is_missing())
      block.extents.push_back({whole.extent.offset + first * row, count * row});
    return;
  }
  const uint64_t across = dataset.chunks_per_row();
  const uint64_t end = divide_up(first + count, dataset.chunk[0]) * across;
  bool can_join = false;  // lengths of filtered chunks are told by their extents
  for (uint64_t i = first / dataset.chunk[0] * across; i < end; ++i) {
    const Hdf5Chunk& chunk = source.chunks[i];
    if (chunk.is_missing()) continue;
    if (can_join &&
        block.extents.back().offset + block.extents.back().length == chunk.extent.offset)
      block.extents.back().length += chunk.extent.length;
    else
      block.extents.push_back(chunk.extent);
    can_join = dataset.filters.empty();
  }
}

Status check_expansion(const Block& block, uint64_t decoded) {
  uint64_t stored = 0;
  for (const Extent& extent : block.extents) stored += extent.length;
  if (decoded <= kFillBytesMax || decoded / kExpansionMax <= stored) return {};
  return fail(ErrorCode::kUnsupported,
              "samples {} to {} claim {} bytes, of which {} are stored; at most {} to one are read",
              block.first_sample, block.first_sample + block.sample_count - 1, decoded, stored,
              kExpansionMax);
}

// Rows that go together in every data set.
uint64_t rows_per_block(const std::vector<Hdf5Source>& sources, uint64_t samples) {
  uint64_t rows = 1;
  for (const Hdf5Source& source : sources) {
    const uint64_t chunk = std::min(source.dataset.chunk[0], samples);
    rows = rows / std::gcd(rows, chunk) * chunk;  // both at most kSamplesMax
    if (rows >= samples) return samples;
  }
  return rows;
}

}  // namespace

Result<FileIndex> index_sources(std::vector<Hdf5Source> sources, uint64_t file_bytes,
                                bool must_join) {
  const uint64_t samples = sources.front().dataset.samples();
  if (samples > kSamplesMax)
    return fail(ErrorCode::kUnsupported, "{} has {} samples; the limit is {} in one file",
                sources.front().name, samples, kSamplesMax);
  Hdf5Layout layout;
  for (const Hdf5Source& source : sources) {
    FB_TRY(check_source(source, samples, file_bytes));
    note_exceptions(source, static_cast<uint32_t>(layout.datasets.size()), layout);
    layout.datasets.push_back(source.dataset);
    layout.datasets.back().name = source.name;
  }
  FB_TRY(layout.check_size());
  if (must_join) FB_TRY(layout.sample_array());
  if (has_sample_extents(sources)) return index_extents(sources.front());
  FileIndex index;
  index.access = Access::kBlocks;
  index.sample_count = samples;
  const uint64_t rows = rows_per_block(sources, samples);
  uint64_t chunk_rows_bytes = 0;  // decoded at once beside the samples: one chunk of each data set
  for (const Hdf5Source& source : sources) chunk_rows_bytes += source.dataset.chunk_bytes();
  for (uint64_t first = 0; first < samples; first += rows) {
    Block block{.first_sample = first, .sample_count = std::min(rows, samples - first)};
    for (const Hdf5Source& source : sources) add_extents(source, first, block.sample_count, block);
    FB_TRY(check_expansion(block, block.sample_count * layout.sample_bytes() + chunk_rows_bytes));
    index.blocks.push_back(std::move(block));
  }
  index.detail = encode_layout(layout);
  return index;
}

}  // namespace forebay::formats
