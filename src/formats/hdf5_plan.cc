#include "formats/hdf5_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "formats/payload.h"

namespace forebay::formats {
namespace {

constexpr uint64_t kChunkBytesMax = UINT32_MAX;  // of the file format
constexpr uint64_t kChunksMax = uint64_t{1} << 22;
constexpr uint64_t kDatasetsMax = 4096;
constexpr size_t kDimensionsMax = 32;
// Without dataset.hdf5.chunk_dims: parts of one sample of up to 1 MiB, or as many small samples as
// make 64 KiB.
constexpr uint64_t kPartBytes = 1024 * 1024, kSmallChunkBytes = 64 * 1024;

Error refuse(const FileSpec& spec, std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, "{}: {}", spec.path, what);
}

std::vector<uint64_t> own_chunk(const Hdf5Dataset& dataset) {
  std::vector<uint64_t> chunk = dataset.array.shape;
  const uint64_t row = dataset.row_bytes();
  chunk[0] = std::clamp<uint64_t>(kSmallChunkBytes / row, 1, chunk[0]);
  uint64_t bytes = row * chunk[0];
  for (size_t i = 1; i < chunk.size() && bytes > kPartBytes; ++i) {
    const uint64_t whole = chunk[i];
    const uint64_t parts = std::min(whole, bytes / kPartBytes + 1);
    chunk[i] = (whole + parts - 1) / parts;
    bytes = bytes / whole * chunk[i];
  }
  return chunk;
}

// A key that counts axes with or without the one of samples.
Result<std::vector<uint64_t>> per_axis(const FileSpec& spec, std::string_view key,
                                       std::vector<uint64_t> given, uint64_t samples_axis,
                                       size_t axes) {
  if (given.size() + 1 == axes) given.insert(given.begin(), samples_axis);
  if (given.size() != axes)
    return refuse(spec, fmt::format("{} has {} numbers, the data set {} axes (samples first)", key,
                                    given.size(), axes));
  return given;
}

Status choose_max_shape(const FileSpec& spec, Hdf5Plan& plan) {
  const auto& shape = plan.dataset.array.shape;
  plan.max_shape = shape;
  if (spec.max_shape.empty()) return {};
  plan.max_shape = FB_TRY(
      per_axis(spec, "dataset.hdf5.max_shape", spec.max_shape, spec.sample_count, shape.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    if (plan.max_shape[i] == 0) plan.max_shape[i] = UINT64_MAX;  // no limit
    if (plan.max_shape[i] < shape[i])
      return refuse(spec, fmt::format("dataset.hdf5.max_shape is {} on an axis of {}",
                                      plan.max_shape[i], shape[i]));
  }
  return {};
}

Status choose_chunk(const FileSpec& spec, Hdf5Plan& plan) {
  Hdf5Dataset& dataset = plan.dataset;
  const auto& shape = dataset.array.shape;
  dataset.is_contiguous =
      spec.chunk_dims.empty() && spec.compression == Compression::kNone && plan.max_shape == shape;
  if (dataset.is_contiguous) {
    dataset.chunk = shape;
    dataset.chunk[0] = 1;
    return {};
  }
  dataset.chunk =
      spec.chunk_dims.empty()
          ? own_chunk(dataset)
          : FB_TRY(per_axis(spec, "dataset.hdf5.chunk_dims", spec.chunk_dims, 1, shape.size()));
  uint64_t chunks = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (dataset.chunk[i] == 0) return refuse(spec, "dataset.hdf5.chunk_dims holds a 0");
    // The library refuses a chunk that can never be filled.
    dataset.chunk[i] = std::min(dataset.chunk[i], plan.max_shape[i]);
    const uint64_t across = (shape[i] - 1) / dataset.chunk[i] + 1;
    if (across > kChunksMax / chunks)
      return refuse(spec, fmt::format("more than {} chunks", kChunksMax));
    chunks *= across;
  }
  const auto bytes = array_bytes({.type = spec.type, .shape = dataset.chunk});
  if (!bytes.ok() || *bytes > kChunkBytesMax)
    return refuse(spec, fmt::format("a chunk of {} elements; the format ends at 4 GiB",
                                    fmt::join(dataset.chunk, " x ")));
  return {};
}

}  // namespace

Result<Hdf5Plan> plan_hdf5(const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  Hdf5Plan plan;
  const uint64_t sets = spec.datasets_per_record;
  std::vector<uint64_t> shape = record_shape(spec);
  if (sets == 0 || sets > kDatasetsMax || shape.front() % sets != 0)
    return refuse(spec, fmt::format("dataset.hdf5.num_dset_per_record {} does not divide the first "
                                    "side of a record, {}",
                                    sets, shape.front()));
  if (spec.dialect == Dialect::kMlpsV2 && sets != 1)
    return refuse(spec,
                  "MLPerf Storage v2.0 has one data set, 'records'; "
                  "dataset.hdf5.num_dset_per_record must be 1");
  shape.front() /= sets;
  shape.insert(shape.begin(), spec.sample_count);
  if (shape.size() > kDimensionsMax) return refuse(spec, "more than 32 axes");
  for (uint64_t i = 0; i < sets; ++i)
    plan.names.push_back(spec.dialect == Dialect::kMlpsV2 ? "records"
                                                          : fmt::format("records_{}", i));
  plan.dataset.array = {.type = spec.type, .shape = std::move(shape)};
  if (spec.compression == Compression::kGzip) plan.dataset.filters = {{Hdf5Filter::kDeflate, 0}};
  if (spec.compression == Compression::kLzf) plan.dataset.filters = {{Hdf5Filter::kLzf, 0}};
  FB_TRY(choose_max_shape(spec, plan));
  FB_TRY(choose_chunk(spec, plan));
  return plan;
}

uint64_t Hdf5Plan::chunk_count() const {
  return dataset.is_contiguous ? 0 : dataset.chunk_rows() * dataset.chunks_per_row();
}

std::vector<uint64_t> Hdf5Plan::chunk_corner(uint64_t chunk) const {
  std::vector<uint64_t> corner(dataset.chunk.size());
  for (size_t i = corner.size(); i-- > 0;) {
    const uint64_t across = (dataset.array.shape[i] - 1) / dataset.chunk[i] + 1;
    corner[i] = chunk % across * dataset.chunk[i];
    chunk /= across;
  }
  return corner;
}

void Hdf5Plan::clear_outside(uint64_t chunk, std::span<std::byte> bytes) const {
  if (!dataset.is_partial(chunk)) return;
  const auto corner = chunk_corner(chunk);
  const size_t last = corner.size() - 1;
  const uint64_t run = dataset.chunk[last] * element_bytes(dataset.array.type);
  const uint64_t inside = std::min(dataset.chunk[last], dataset.array.shape[last] - corner[last]) *
                          element_bytes(dataset.array.type);
  for (uint64_t at = 0, number = 0; at < bytes.size(); at += run, ++number) {
    bool is_outside = false;
    uint64_t rest = number;
    for (size_t i = last; i-- > 0;) {
      is_outside |= corner[i] + rest % dataset.chunk[i] >= dataset.array.shape[i];
      rest /= dataset.chunk[i];
    }
    const uint64_t keep = is_outside ? 0 : inside;
    std::memset(bytes.data() + at + keep, 0, run - keep);
  }
}

}  // namespace forebay::formats
