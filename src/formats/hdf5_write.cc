#include "formats/hdf5_write.h"

#include <zlib.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "formats/byte_buffer.h"
#include "formats/hdf5_filters.h"
#include "formats/hdf5_library.h"
#include "formats/hdf5_plan.h"
#include "formats/hdf5_type.h"
#include "formats/hdf5_writing_driver.h"
#include "formats/payload.h"

namespace forebay::formats {
namespace {

constexpr H5Z_filter_t kLzfNumber = 32000;
constexpr unsigned kLzfRevision = 4, kLzfLibrary = 0x0105;  // as h5py notes them

// The library takes a filter into a file only when it knows one of that number. Chunks come packed
// (H5Dwrite_chunk), so this one is not called here; it works for others in the process.
size_t lzf_filter(unsigned flags, size_t count, const unsigned* values, size_t bytes,
                  size_t* buffer_bytes, void** buffer) {
  const bool unpacks = (flags & H5Z_FLAG_REVERSE) != 0;
  const size_t room = unpacks ? (count > 2 ? values[2] : 0) : bytes;
  if (room == 0) return 0;
  auto* out = static_cast<std::byte*>(H5allocate_memory(room, false));
  if (out == nullptr) return 0;
  const std::span<const std::byte> in(static_cast<const std::byte*>(*buffer), bytes);
  size_t made = 0;
  if (unpacks)
    made = unpack_lzf(in, {out, room}).ok() ? room : 0;
  else
    made = pack_lzf(in, {out, room}).value_or(0);
  if (made == 0) {
    H5free_memory(out);
    return 0;
  }
  H5free_memory(*buffer);
  *buffer = out;
  *buffer_bytes = room;
  return made;
}

bool know_lzf() {
  if (H5Zfilter_avail(kLzfNumber) > 0) return true;
  H5Eclear2(H5E_DEFAULT);
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS, kLzfNumber, 1,         1, "lzf",
                            nullptr,          nullptr,    lzf_filter};
  return H5Zregister(&filter) >= 0;
}

// The library's side of a new file: takes lengths, gives places.
class Layouter {
 public:
  explicit Layouter(const Hdf5Plan& plan) : plan_(plan) {}
  ~Layouter() {
    const Hdf5Lock lock;
    datasets_.clear();
    file_.close();
  }

  Status begin(const FileSpec& spec) {
    const Hdf5Lock lock;
    file_ = FB_TRY(create_hdf5(image_, spec.dialect));
    const Hdf5Handle creation = FB_TRY(make_creation(spec));
    const Hdf5Handle type = make_hdf5_type(spec.type);
    const auto& shape = plan_.dataset.array.shape;
    const Hdf5Handle space(H5Screate_simple(static_cast<int>(shape.size()), as_hsize(shape),
                                            as_hsize(plan_.max_shape)),
                           H5Sclose);
    for (const std::string& name : plan_.names)
      datasets_.push_back(FB_TRY(add(name, type, space, creation)));
    return add_labels(spec);
  }

  // Of a contiguous data set, all of its data.
  Result<Extent> place(size_t dataset) {
    const Hdf5Lock lock;
    const haddr_t offset = H5Dget_offset(datasets_[dataset].id());
    if (offset == HADDR_UNDEF) return hdf5_error(ErrorCode::kIo, "a data set without a place");
    return Extent{offset, plan_.dataset.row_bytes() * plan_.dataset.samples()};
  }

  // Chunks in their order.
  Result<Extent> place_chunk(size_t dataset, uint64_t chunk, uint64_t bytes, uint32_t skipped) {
    const auto corner = plan_.chunk_corner(chunk);
    const std::byte nothing{};  // our driver notes the length and drops the bytes
    const Hdf5Lock lock;
    image_.data.reset();
    if (H5Dwrite_chunk(datasets_[dataset].id(), H5P_DEFAULT, skipped, as_hsize(corner), bytes,
                       &nothing) < 0 ||
        !image_.data || image_.data->length != bytes)
      return hdf5_error(ErrorCode::kIo, fmt::format("cannot place chunk {}", chunk));
    return *image_.data;
  }

  // No more data; the image is whole.
  Result<const Hdf5Image*> finish() {
    const Hdf5Lock lock;
    datasets_.clear();
    if (file_.close() < 0) return hdf5_error(ErrorCode::kIo, "cannot lay out the metadata");
    return &image_;
  }

 private:
  static const hsize_t* as_hsize(const std::vector<uint64_t>& counts) {
    static_assert(sizeof(hsize_t) == sizeof(uint64_t));
    return reinterpret_cast<const hsize_t*>(counts.data());
  }

  static Result<Hdf5Handle> make_creation_of_any() {
    Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    if (!creation.is_open() || H5Pset_obj_track_times(creation.id(), false) < 0 ||
        H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER) < 0)
      return hdf5_error(ErrorCode::kIo, "cannot set up the HDF5 library");
    return creation;
  }

  Result<Hdf5Handle> make_creation(const FileSpec& spec) {
    Hdf5Handle creation = FB_TRY(make_creation_of_any());
    const hid_t id = creation.id();
    const Hdf5Dataset& dataset = plan_.dataset;
    bool is_good = true;
    if (dataset.is_contiguous)
      is_good = H5Pset_alloc_time(id, H5D_ALLOC_TIME_EARLY) >= 0;
    else
      is_good =
          H5Pset_chunk(id, static_cast<int>(dataset.chunk.size()), as_hsize(dataset.chunk)) >= 0;
    if (spec.compression == Compression::kGzip)
      is_good = is_good && H5Pset_deflate(id, static_cast<unsigned>(spec.compression_level)) >= 0;
    if (spec.compression == Compression::kLzf) {
      const unsigned values[] = {kLzfRevision, kLzfLibrary,
                                 static_cast<unsigned>(dataset.chunk_bytes())};
      is_good =
          is_good && know_lzf() && H5Pset_filter(id, kLzfNumber, H5Z_FLAG_OPTIONAL, 3, values) >= 0;
    }
    if (!is_good) return hdf5_error(ErrorCode::kInvalidArgument, "chunks or compression");
    return creation;
  }

  Result<Hdf5Handle> add(const std::string& name, const Hdf5Handle& type, const Hdf5Handle& space,
                         const Hdf5Handle& creation) {
    Hdf5Handle dataset(H5Dcreate2(file_.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT,
                                  creation.id(), H5P_DEFAULT),
                       H5Dclose);
    if (!dataset.is_open())
      return hdf5_error(ErrorCode::kInvalidArgument, "cannot make data set " + name);
    return dataset;
  }

  // int64 zeros, one for each sample: bytes that nothing is put into.
  Status add_labels(const FileSpec& spec) {
    const Hdf5Handle creation = FB_TRY(make_creation_of_any());
    const hsize_t count = spec.sample_count;
    const Hdf5Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose);
    const Hdf5Handle type = make_hdf5_type(ElementType::kI64);
    if (H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY) < 0)
      return hdf5_error(ErrorCode::kIo, "cannot set up the HDF5 library");
    FB_TRY(add("labels", type, space, creation));
    return {};
  }

  const Hdf5Plan& plan_;
  Hdf5Image image_;
  Hdf5Handle file_;
  std::vector<Hdf5Handle> datasets_;
};

// Makes the bytes of chunk after chunk, packed.
class ChunkMaker {
 public:
  ChunkMaker(const Hdf5Plan& plan, const FileSpec& spec)
      : plan_(plan), spec_(spec), payload_(spec) {}

  struct Chunk {
    std::span<const std::byte> bytes;
    uint32_t skipped = 0;
  };
  Result<Chunk> make(uint64_t number) {
    const auto plain = plain_.reserve(plan_.dataset.chunk_bytes());
    size_t at = 0;
    const auto collect = [&](std::span<const std::byte> piece) -> Status {
      std::copy(piece.begin(), piece.end(), plain.begin() + static_cast<ptrdiff_t>(at));
      at += piece.size();
      return {};
    };
    FB_TRY(payload_.produce(plain.size(), collect));
    plan_.clear_outside(number, plain);
    if (spec_.compression == Compression::kGzip) return Chunk{deflate(plain), 0};
    if (spec_.compression != Compression::kLzf) return Chunk{plain, 0};
    // What does not shrink is stored as it is, with a note that the filter was left out.
    const auto room = packed_.reserve(plain.size());
    const auto packed = pack_lzf(plain, room);
    return packed ? Chunk{room.first(*packed), 0} : Chunk{plain, 1};
  }

  static uint64_t bytes_max(const Hdf5Plan& plan, const FileSpec& spec) {
    const uint64_t plain = plan.dataset.chunk_bytes();
    return spec.compression == Compression::kGzip ? compressBound(plain) : plain;
  }

 private:
  std::span<const std::byte> deflate(std::span<const std::byte> plain) {
    const auto room = packed_.reserve(compressBound(plain.size()));
    uLongf made = room.size();
    FB_CHECK(compress2(reinterpret_cast<Bytef*>(room.data()), &made,
                       reinterpret_cast<const Bytef*>(plain.data()), plain.size(),
                       spec_.compression_level) == Z_OK);
    return room.first(made);
  }

  const Hdf5Plan& plan_;
  const FileSpec& spec_;
  Payload payload_;
  ByteBuffer plain_, packed_;
};

// Puts data and metadata into the writer at their offsets, in their order.
class Output {
 public:
  explicit Output(storage::Writer& writer) : writer_(writer) {}

  uint64_t bytes() const { return bytes_; }
  Status append(std::span<const std::byte> bytes) {
    FB_TRY(writer_.append(bytes));
    bytes_ += bytes.size();
    return {};
  }
  Status append_zeros(uint64_t end) {
    static constexpr std::byte kZeros[4096]{};
    while (bytes_ < end) FB_TRY(append({kZeros, std::min<uint64_t>(end - bytes_, sizeof kZeros)}));
    return {};
  }
  // Up to `end`: the image's metadata, zeros where it has none.
  Status append_metadata(const Hdf5Image& image, uint64_t end) {
    auto piece = image.pieces().lower_bound(bytes_);
    for (; piece != image.pieces().end() && piece->first < end; ++piece) {
      if (piece->first + piece->second.size() > end) return misplaced();
      FB_TRY(append_zeros(piece->first));
      FB_TRY(append(piece->second));
    }
    return append_zeros(end);
  }
  Status append_data(uint64_t offset, std::span<const std::byte> bytes) {
    if (offset < bytes_) return misplaced();
    FB_TRY(append_zeros(offset));
    return append(bytes);
  }
  // Metadata that belong where zeros were appended.
  Status patch_metadata(const Hdf5Image& image) {
    for (const auto& [offset, bytes] : image.pieces()) {
      if (offset >= bytes_) return {};
      if (bytes.size() > bytes_ - offset) return misplaced();
      FB_TRY(writer_.patch(offset, bytes));
    }
    return {};
  }

 private:
  static Error misplaced() {
    return fail(ErrorCode::kIo, "the HDF5 library laid data out of order");
  }

  storage::Writer& writer_;
  uint64_t bytes_ = 0;
};

Status write_contiguous(Output& output, Layouter& layouter, const Hdf5Plan& plan,
                        const FileSpec& spec) {
  std::vector<Extent> places;
  for (size_t i = 0; i < plan.names.size(); ++i) places.push_back(FB_TRY(layouter.place(i)));
  const Hdf5Image& image = *FB_TRY(layouter.finish());
  Payload payload(spec);
  for (const Extent& place : places) {
    FB_TRY(output.append_metadata(image, place.offset));
    FB_TRY(payload.produce(place.length,
                           [&](std::span<const std::byte> piece) { return output.append(piece); }));
  }
  return output.append_metadata(image, image.file_bytes);
}

// One pass: chunks as they come, metadata patched in afterwards.
Status write_and_patch(Output& output, Layouter& layouter, const Hdf5Plan& plan,
                       const FileSpec& spec) {
  ChunkMaker maker(plan, spec);
  for (size_t i = 0; i < plan.names.size(); ++i)
    for (uint64_t number = 0; number < plan.chunk_count(); ++number) {
      const ChunkMaker::Chunk chunk = FB_TRY(maker.make(number));
      const Extent place =
          FB_TRY(layouter.place_chunk(i, number, chunk.bytes.size(), chunk.skipped));
      FB_TRY(output.append_data(place.offset, chunk.bytes));
    }
  const Hdf5Image& image = *FB_TRY(layouter.finish());
  FB_TRY(output.patch_metadata(image));
  return output.append_metadata(image, image.file_bytes);
}

// Lengths of packed chunks are known once they are made; they are made again to be written.
Status write_in_order(Output& output, Layouter& layouter, const Hdf5Plan& plan,
                      const FileSpec& spec) {
  const bool is_packed = !plan.dataset.filters.empty();
  std::vector<uint64_t> offsets;
  std::optional<ChunkMaker> maker;
  if (is_packed) maker.emplace(plan, spec);
  for (size_t i = 0; i < plan.names.size(); ++i)
    for (uint64_t number = 0; number < plan.chunk_count(); ++number) {
      uint64_t bytes = plan.dataset.chunk_bytes();
      uint32_t skipped = 0;
      if (is_packed) {
        const ChunkMaker::Chunk chunk = FB_TRY(maker->make(number));
        bytes = chunk.bytes.size();
        skipped = chunk.skipped;
      }
      offsets.push_back(FB_TRY(layouter.place_chunk(i, number, bytes, skipped)).offset);
    }
  const Hdf5Image& image = *FB_TRY(layouter.finish());
  maker.emplace(plan, spec);
  for (size_t at = 0; at < offsets.size(); ++at) {
    const ChunkMaker::Chunk chunk = FB_TRY(maker->make(at % plan.chunk_count()));
    FB_TRY(output.append_metadata(image, offsets[at]));
    FB_TRY(output.append_data(offsets[at], chunk.bytes));
  }
  return output.append_metadata(image, image.file_bytes);
}

Status write_planned(storage::Writer& writer, bool can_patch, const Hdf5Plan& plan,
                     const FileSpec& spec) {
  Layouter layouter(plan);
  FB_TRY(layouter.begin(spec));
  Output output(writer);
  if (plan.dataset.is_contiguous) return write_contiguous(output, layouter, plan, spec);
  if (can_patch && !plan.dataset.filters.empty())
    return write_and_patch(output, layouter, plan, spec);
  return write_in_order(output, layouter, plan, spec);
}

Result<uint64_t> planned_bytes(const Hdf5Plan& plan, const FileSpec& spec) {
  Layouter layouter(plan);
  FB_TRY(layouter.begin(spec));
  const uint64_t bytes = ChunkMaker::bytes_max(plan, spec);
  for (size_t i = 0; i < plan.names.size(); ++i)
    for (uint64_t number = 0; number < plan.chunk_count(); ++number)
      FB_TRY(layouter.place_chunk(i, number, bytes, 0));
  return (*FB_TRY(layouter.finish())).file_bytes;
}

// What a contiguous file has beside its records. It depends on few things, and a data set of a
// million files asks a million times.
class OverheadTable {
 public:
  Result<uint64_t> find(const Hdf5Plan& plan, const FileSpec& spec) {
    const Key key{static_cast<int>(spec.dialect), static_cast<int>(spec.type), plan.names.size(),
                  plan.dataset.array.shape.size()};
    {
      const base::MutexLock lock(mutex_);
      const auto known = bytes_.find(key);
      if (known != bytes_.end()) return known->second;
    }
    const uint64_t bytes = FB_TRY(planned_bytes(plan, spec)) - data_bytes(spec);
    const base::MutexLock lock(mutex_);
    if (bytes_.size() < kKeysMax) bytes_.emplace(key, bytes);
    return bytes;
  }
  static uint64_t data_bytes(const FileSpec& spec) {
    return payload_bytes(spec) + spec.sample_count * sizeof(int64_t);  // labels
  }

 private:
  using Key = std::tuple<int, int, size_t, size_t>;
  static constexpr size_t kKeysMax = 1024;
  base::Mutex mutex_;
  std::map<Key, uint64_t> bytes_ FB_GUARDED_BY(mutex_);
};

Result<uint64_t> contiguous_bytes(const Hdf5Plan& plan, const FileSpec& spec) {
  static OverheadTable table;
  return FB_TRY(table.find(plan, spec)) + OverheadTable::data_bytes(spec);
}

}  // namespace

Status write_hdf5(storage::Writer& writer, bool can_patch, const FileSpec& spec) {
  const Hdf5Plan plan = FB_TRY(plan_hdf5(spec));
  return write_planned(writer, can_patch, plan, spec).context(spec.path);
}

uint64_t hdf5_bytes(const FileSpec& spec) {
  const auto plan = plan_hdf5(spec);
  if (!plan.ok()) return UINT64_MAX;
  const auto bytes =
      plan->dataset.is_contiguous ? contiguous_bytes(*plan, spec) : planned_bytes(*plan, spec);
  return bytes.ok() ? *bytes : UINT64_MAX;
}

}  // namespace forebay::formats
