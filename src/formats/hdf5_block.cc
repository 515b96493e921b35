#include "formats/hdf5_block.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace forebay::formats {
namespace {

class Hdf5DecodedBlock : public DecodedBlock {
 public:
  Hdf5DecodedBlock(const Hdf5Layout& layout, Result<ArrayLayout> sample, uint64_t samples)
      : sample_(std::move(sample)),
        sample_bytes_(layout.sample_bytes()),
        bytes_(sample_bytes_ * samples),
        data_(std::make_unique_for_overwrite<std::byte[]>(bytes_)) {
    uint64_t offset = 0;
    for (const Hdf5Dataset& dataset : layout.datasets) {
      ArrayLayout row = dataset.array;
      row.shape.erase(row.shape.begin());
      rows_.push_back({dataset.name, std::move(row), offset, dataset.row_bytes()});
      offset += dataset.row_bytes();
    }
  }

  Result<Record> at(uint64_t sample) const override {
    FB_TRY(check(sample));
    if (!sample_.ok()) return sample_.error();
    return Record{.encoding = Encoding::kArray,
                  .bytes = {data_.get() + sample * sample_bytes_, sample_bytes_},
                  .array = *sample_};
  }
  // The row of each data set.
  Status parts_at(uint64_t sample, std::vector<Part>& out) const override {
    out.clear();
    FB_TRY(check(sample));
    for (const Row& row : rows_)
      out.push_back({row.name,
                     {.encoding = Encoding::kArray,
                      .bytes = {data_.get() + sample * sample_bytes_ + row.offset, row.bytes},
                      .array = row.array}});
    return {};
  }
  uint64_t bytes() const override { return bytes_; }
  std::span<std::byte> data() { return {data_.get(), bytes_}; }

 private:
  struct Row {
    std::string name;
    ArrayLayout array;
    uint64_t offset = 0, bytes = 0;
  };
  Status check(uint64_t sample) const {
    if (sample < bytes_ / sample_bytes_) return {};
    return fail(ErrorCode::kInvalidArgument, "sample {} of a block of {}", sample,
                bytes_ / sample_bytes_);
  }

  Result<ArrayLayout> sample_;
  std::vector<Row> rows_;
  uint64_t sample_bytes_;
  uint64_t bytes_;
  std::unique_ptr<std::byte[]> data_;
};

void fill_with(std::span<const std::byte> element, std::span<std::byte> out) {
  if (out.empty()) return;
  if (element.empty()) {
    std::memset(out.data(), 0, out.size());
    return;
  }
  size_t done = std::min(element.size(), out.size());
  std::memcpy(out.data(), element.data(), done);
  while (done < out.size()) {  // doubles what is there
    const size_t n = std::min(done, out.size() - done);
    std::memcpy(out.data() + done, out.data(), n);
    done += n;
  }
}

// Where the elements of one chunk belong among the samples of a block.
class ChunkPlace {
 public:
  // `first_sample` of the block is a multiple of the chunk's first side. `stride` bytes lie between
  // samples.
  ChunkPlace(const Hdf5Dataset& dataset, uint64_t number, uint64_t first_sample, uint64_t stride)
      : dataset_(dataset), stride_(stride) {
    const auto& shape = dataset.array.shape;
    const size_t axes = shape.size();
    from_.resize(axes);
    count_.resize(axes);
    for (size_t i = axes; i-- > 0;) {
      const uint64_t side = dataset.chunk[i];
      const uint64_t across = shape[i] / side + (shape[i] % side != 0 ? 1 : 0);
      from_[i] = number % across * side;
      count_[i] = std::min(side, shape[i] - from_[i]);
      number /= across;
    }
    from_[0] -= first_sample;
  }

  uint64_t first_row() const { return from_[0]; }
  uint64_t row_count() const { return count_[0]; }

  // Copies what lies inside the shape. `samples` begins with this data set's part of the block's
  // first sample.
  void copy(std::span<const std::byte> chunk, std::span<std::byte> samples) const {
    const size_t item = element_bytes(dataset_.array.type);
    const size_t axes = count_.size();
    // The last axes that the chunk covers whole are one run of bytes. The first axis never joins:
    // between samples lie the other data sets.
    size_t run_axis = axes;  // the run covers axes [run_axis, axes)
    uint64_t run = item;
    while (run_axis > 1) {
      --run_axis;
      const bool is_whole = dataset_.chunk[run_axis] == dataset_.array.shape[run_axis];
      run *= count_[run_axis];
      if (!is_whole) break;
    }
    std::vector<uint64_t> position(run_axis, 0);
    for (;;) {
      uint64_t in = 0, out = 0;
      for (size_t i = 0; i < axes; ++i) {
        const uint64_t p = i < run_axis ? position[i] : 0;
        in = in * dataset_.chunk[i] + p;
        if (i > 0) out = out * dataset_.array.shape[i] + from_[i] + p;
      }
      std::memcpy(samples.data() + (from_[0] + position[0]) * stride_ + out * item,
                  chunk.data() + in * item, run);
      size_t axis = run_axis;
      while (axis > 0) {
        --axis;
        if (++position[axis] < count_[axis]) break;
        position[axis] = 0;
        if (axis == 0) return;
      }
    }
  }

 private:
  const Hdf5Dataset& dataset_;
  uint64_t stride_;
  std::vector<uint64_t> from_, count_;
};

// Finds out what is special about chunks that are asked for in order.
class Exceptions {
 public:
  Exceptions(const Hdf5Layout& layout, size_t dataset, uint64_t first) : layout_(layout) {
    const auto is_before = [&](const Hdf5Exception& e, uint64_t chunk) {
      return e.dataset != dataset ? e.dataset < dataset : e.first + e.count <= chunk;
    };
    next_ = std::lower_bound(layout.exceptions.begin(), layout.exceptions.end(), first, is_before);
    dataset_ = dataset;
  }
  const Hdf5Exception* find(uint64_t chunk) {
    const auto end = layout_.exceptions.end();
    while (next_ != end && next_->dataset == dataset_ && next_->first + next_->count <= chunk)
      ++next_;
    const bool is_hit = next_ != end && next_->dataset == dataset_ && next_->first <= chunk;
    return is_hit ? &*next_ : nullptr;
  }

 private:
  const Hdf5Layout& layout_;
  std::vector<Hdf5Exception>::const_iterator next_;
  size_t dataset_ = 0;
};

}  // namespace

Status Hdf5BlockDecoder::use_layout(const std::string& detail) {
  if (!layout_.datasets.empty() && detail == detail_) return {};
  layout_ = FB_TRY(decode_layout(detail));
  FB_TRY(layout_.check_size());
  sample_ = layout_.sample_array();
  detail_ = detail;
  return {};
}

Status Hdf5BlockDecoder::decode_dataset(size_t number, const Block& block,
                                        std::span<const std::byte>& bytes, size_t& extent,
                                        std::span<std::byte> samples, uint64_t offset) {
  const Hdf5Dataset& dataset = layout_.datasets[number];
  const uint64_t chunk_bytes = dataset.chunk_bytes();
  const uint64_t across = dataset.chunks_per_row();
  const uint64_t stride = layout_.sample_bytes();
  const uint64_t first = block.first_sample / dataset.chunk[0] * across;
  const uint64_t last_row = (block.first_sample + block.sample_count - 1) / dataset.chunk[0];
  Exceptions exceptions(layout_, number, first);
  uint64_t joined = 0;  // bytes of extents of chunks without filters that were passed
  for (uint64_t i = first; i < (last_row + 1) * across; ++i) {
    const Hdf5Exception* exception = exceptions.find(i);
    const ChunkPlace place(dataset, i, block.first_sample, stride);
    const bool fills_rows = dataset.has_whole_row_chunks() && stride == dataset.row_bytes() &&
                            place.row_count() == dataset.chunk[0];
    const auto target = fills_rows ? samples.subspan(place.first_row() * stride, chunk_bytes)
                                   : chunk_.reserve(chunk_bytes);
    if (exception != nullptr && exception->is_missing) {
      fill_with(dataset.fill, target);
    } else {
      const bool is_plain = dataset.filters.empty();
      uint64_t stored = chunk_bytes;
      if (!is_plain) {
        if (extent == block.extents.size())
          return fail(ErrorCode::kInvalidArgument, "chunk {}: the index lacks its extent", i);
        stored = block.extents[extent++].length;
      }
      if (stored > bytes.size())
        return fail(ErrorCode::kCorruption, "chunk {}: {} bytes of {}", i, bytes.size(), stored);
      const auto from = bytes.first(stored);
      bytes = bytes.subspan(stored);
      if (is_plain) joined += stored;
      if (is_plain && !fills_rows) {
        place.copy(from, samples.subspan(offset));
        continue;
      }
      const bool is_filtered = !(dataset.skips_partial_chunks && dataset.is_partial(i));
      FB_TRY(unfilter_
                 .run(is_filtered ? std::span(dataset.filters) : std::span<Hdf5FilterStep>(),
                      exception != nullptr ? exception->skipped : 0, from, target)
                 .context(fmt::format("chunk {}", i)));
    }
    if (!fills_rows) place.copy(target, samples.subspan(offset));
  }
  while (joined > 0 && extent < block.extents.size()) {
    const uint64_t length = block.extents[extent].length;
    if (length > joined)
      return fail(ErrorCode::kInvalidArgument, "the index has extents across data sets");
    joined -= length;
    ++extent;
  }
  return {};
}

Result<std::shared_ptr<const DecodedBlock>> Hdf5BlockDecoder::decode(
    std::span<const std::byte> bytes, const FileIndex& index, const Block& block) {
  FB_TRY(use_layout(index.detail));
  for (const Hdf5Dataset& dataset : layout_.datasets) {
    const bool fits = block.sample_count > 0 && block.first_sample < dataset.samples() &&
                      block.sample_count <= dataset.samples() - block.first_sample &&
                      block.first_sample % dataset.chunk[0] == 0;
    const uint64_t end = block.first_sample + block.sample_count;
    if (!fits || (end % dataset.chunk[0] != 0 && end != dataset.samples()))
      return fail(ErrorCode::kInvalidArgument, "the block does not begin and end with its chunks");
  }
  auto decoded = std::make_shared<Hdf5DecodedBlock>(layout_, sample_, block.sample_count);
  uint64_t offset = 0;
  size_t extent = 0;
  for (size_t i = 0; i < layout_.datasets.size(); ++i) {
    FB_TRY(decode_dataset(i, block, bytes, extent, decoded->data(), offset));
    offset += layout_.datasets[i].row_bytes();
  }
  if (!bytes.empty() || extent != block.extents.size())
    return fail(ErrorCode::kInvalidArgument, "{} bytes more than the block's chunks", bytes.size());
  return std::shared_ptr<const DecodedBlock>(std::move(decoded));
}

}  // namespace forebay::formats
