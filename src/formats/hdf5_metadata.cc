#include "formats/hdf5_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "formats/hdf5_reading_driver.h"
#include "formats/hdf5_type.h"

namespace forebay::formats {
namespace {

constexpr uint64_t kObjectsMax = 10'000;   // visited in files of others
constexpr uint64_t kRecordSetsMax = 4096;  // records_0, records_1, ...
constexpr uint64_t kChunksMax = uint64_t{1} << 22;
constexpr int kTriesWithoutLock = 16;

Error corrupt(const std::string& what) {
  return hdf5_error(ErrorCode::kCorruption, what);
}

herr_t refuse_link(const char* /*parent_file*/, const char* /*parent_group*/,
                   const char* /*child_file*/, const char* /*child_object*/, unsigned* /*flags*/,
                   hid_t /*access*/, void* /*data*/) {
  return -1;
}

Result<Hdf5Handle> open_dataset(hid_t file, const std::string& name) {
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  if (!access.is_open() || H5Pset_elink_cb(access.id(), refuse_link, nullptr) < 0)
    return hdf5_error(ErrorCode::kIo, "cannot set up the HDF5 library");
  Hdf5Handle dataset(H5Dopen2(file, name.c_str(), access.id()), H5Dclose);
  if (!dataset.is_open()) return corrupt("cannot open " + name);
  return dataset;
}

// --- which data sets ---

bool has_link(hid_t file, const std::string& name) {
  const bool is_there = H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0;
  if (!is_there) H5Eclear2(H5E_DEFAULT);
  return is_there;
}

struct Visit {
  std::vector<std::string> names;
  uint64_t objects = 0;
};

herr_t visit(hid_t /*file*/, const char* name, const H5O_info_t* info, void* data) {
  auto& visit = *static_cast<Visit*>(data);
  if (++visit.objects > kObjectsMax) return 1;
  if (info->type == H5O_TYPE_DATASET) visit.names.emplace_back(name);
  return 0;
}

// Bytes of a data set of numbers with at least one axis; 0 for others.
uint64_t usable_bytes(hid_t file, const std::string& name) {
  const auto dataset = open_dataset(file, name);
  if (!dataset.ok()) return 0;
  const Hdf5Handle type(H5Dget_type(dataset->id()), H5Tclose);
  const Hdf5Handle space(H5Dget_space(dataset->id()), H5Sclose);
  if (!type.is_open() || !space.is_open()) return 0;
  const auto element = element_of(type.id());
  const int axes = H5Sget_simple_extent_ndims(space.id());
  if (!element.ok() || axes < 1) return 0;
  std::vector<hsize_t> shape(static_cast<size_t>(axes));
  if (H5Sget_simple_extent_dims(space.id(), shape.data(), nullptr) < 0) return 0;
  const auto bytes = array_bytes({.type = element->type, .shape = {shape.begin(), shape.end()}});
  return bytes.ok() ? *bytes : UINT64_MAX;
}

Result<std::string> largest_dataset(hid_t file) {
  Visit found;
  const herr_t visited = H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, visit, &found, H5O_INFO_BASIC);
  if (visited < 0) return corrupt("cannot list its data sets");
  if (visited > 0)
    return fail(ErrorCode::kUnsupported,
                "more than {} objects and no data set 'records' or 'records_0'", kObjectsMax);
  if (found.names.empty()) return fail(ErrorCode::kCorruption, "no data sets in this HDF5 file");
  if (found.names.size() == 1) return found.names.front();
  std::sort(found.names.begin(), found.names.end());
  const std::string* largest = nullptr;
  uint64_t bytes_max = 0;
  for (const std::string& name : found.names) {
    uint64_t bytes = usable_bytes(file, name);
    if (name == "labels") bytes = std::min<uint64_t>(bytes, 1);  // of samples that lie elsewhere
    if (bytes <= bytes_max) continue;
    bytes_max = bytes;
    largest = &name;
  }
  if (largest == nullptr)
    return fail(ErrorCode::kUnsupported,
                "none of its {} data sets holds numbers along at least one axis",
                found.names.size());
  return *largest;
}

Result<std::vector<std::string>> choose_names(hid_t file) {
  std::vector<std::string> names;
  while (names.size() < kRecordSetsMax) {
    std::string name = fmt::format("records_{}", names.size());
    if (!has_link(file, name)) break;
    names.push_back(std::move(name));
  }
  if (!names.empty()) return names;
  if (has_link(file, "records")) return std::vector<std::string>{"records"};
  names.push_back(FB_TRY(largest_dataset(file)));
  return names;
}

// --- one data set ---

Result<std::vector<uint64_t>> shape_of(hid_t dataset) {
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  if (!space.is_open()) return corrupt("no shape");
  const int axes = H5Sget_simple_extent_ndims(space.id());
  if (axes < 0) return corrupt("no shape");
  if (H5Sget_simple_extent_type(space.id()) == H5S_NULL)
    return fail(ErrorCode::kUnsupported, "no elements: a null data space");
  if (axes == 0)
    return fail(ErrorCode::kUnsupported, "a single value; samples lie along the first axis");
  std::vector<hsize_t> shape(static_cast<size_t>(axes));
  if (H5Sget_simple_extent_dims(space.id(), shape.data(), nullptr) < 0) return corrupt("no shape");
  const std::vector<uint64_t> counts(shape.begin(), shape.end());
  if (std::find(counts.begin(), counts.end(), 0) != counts.end())
    return fail(ErrorCode::kUnsupported, "no elements: shape {}", fmt::join(counts, " x "));
  return counts;
}

Result<std::vector<std::byte>> fill_of(hid_t creation, hid_t type) {
  H5D_fill_value_t status = H5D_FILL_VALUE_UNDEFINED;
  if (H5Pfill_value_defined(creation, &status) < 0) return corrupt("its fill value");
  std::vector<std::byte> fill(H5Tget_size(type));
  if (status != H5D_FILL_VALUE_USER_DEFINED) return std::vector<std::byte>{};
  if (H5Pget_fill_value(creation, type, fill.data()) < 0) return corrupt("its fill value");
  const bool is_zero =
      std::all_of(fill.begin(), fill.end(), [](std::byte b) { return b == std::byte{0}; });
  if (is_zero) fill.clear();
  return fill;
}

Result<Hdf5FilterStep> filter_at(hid_t creation, unsigned number, size_t element) {
  unsigned flags = 0, config = 0;
  unsigned values[32] = {};
  size_t count = 32;
  const H5Z_filter_t filter =
      H5Pget_filter2(creation, number, &flags, &count, values, 0, nullptr, &config);
  H5Eclear2(H5E_DEFAULT);
  switch (filter) {
    case H5Z_FILTER_DEFLATE:
    case H5Z_FILTER_FLETCHER32:
    case 32000:
      return Hdf5FilterStep{static_cast<Hdf5Filter>(filter), 0};
    case H5Z_FILTER_SHUFFLE:
      if (count > 0 && values[0] > 0) element = values[0];
      return Hdf5FilterStep{Hdf5Filter::kShuffle, static_cast<uint32_t>(element)};
    default:
      if (filter < 0) return corrupt("its filters");
      return fail(ErrorCode::kUnsupported,
                  "filter {} ({}); deflate, shuffle, fletcher32 and lzf are undone here, so write "
                  "the file anew with one of these (h5repack -f GZIP=4)",
                  filter, hdf5_filter_name(static_cast<uint32_t>(filter)));
  }
}

Result<std::vector<Hdf5FilterStep>> filters_of(hid_t creation, size_t element) {
  const int count = H5Pget_nfilters(creation);
  if (count < 0) return corrupt("its filters");
  std::vector<Hdf5FilterStep> steps;
  int compressors = 0;
  for (int i = 0; i < count; ++i) {
    steps.push_back(FB_TRY(filter_at(creation, static_cast<unsigned>(i), element)));
    const Hdf5Filter filter = steps.back().filter;
    if (filter == Hdf5Filter::kDeflate || filter == Hdf5Filter::kLzf) ++compressors;
  }
  if (compressors > 1) return fail(ErrorCode::kUnsupported, "chunks that are compressed twice");
  return steps;
}

Status use_contiguous(hid_t dataset, Hdf5Source& source) {
  Hdf5Dataset& found = source.dataset;
  found.is_contiguous = true;
  found.chunk = found.array.shape;
  found.chunk[0] = 1;
  const haddr_t offset = H5Dget_offset(dataset);
  H5Eclear2(H5E_DEFAULT);
  Hdf5Chunk whole;
  if (offset != HADDR_UNDEF) whole.extent = {offset, FB_TRY(array_bytes(found.array))};
  source.chunks.push_back(whole);
  return {};
}

Status read_chunk_shape(hid_t creation, Hdf5Dataset& found) {
  const size_t axes = found.array.shape.size();
  std::vector<hsize_t> chunk(axes);
  if (H5Pget_chunk(creation, static_cast<int>(axes), chunk.data()) != static_cast<int>(axes))
    return corrupt("its chunks");
  found.chunk.assign(chunk.begin(), chunk.end());
  if (std::find(chunk.begin(), chunk.end(), 0) != chunk.end())
    return fail(ErrorCode::kCorruption, "chunks of no elements");
  FB_TRY(array_bytes({.type = found.array.type, .shape = found.chunk}));
  unsigned options = 0;
  if (H5Pget_chunk_opts(creation, &options) < 0) return corrupt("its chunks");
  found.skips_partial_chunks = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  uint64_t chunks = 1;
  for (size_t i = 0; i < axes; ++i) {
    const uint64_t across = (found.array.shape[i] - 1) / found.chunk[i] + 1;
    if (across > kChunksMax / chunks)
      return fail(ErrorCode::kUnsupported, "more than {} chunks in one data set", kChunksMax);
    chunks *= across;
  }
  return {};
}

// The library has a call for the address of one chunk that walks over all of them, and one that
// looks the chunk up and reads it. Our driver notes what the latter would read.
Result<Hdf5Chunk> find_chunk(hid_t dataset, const std::vector<hsize_t>& corner,
                             Hdf5ReadSession& session) {
  // A chunk that was never written is an error of the two outermost functions; what goes wrong
  // while it is looked up comes from below them.
  constexpr ssize_t kErrorsOfMissingChunk = 2;
  Hdf5Chunk chunk;
  session.data.reset();
  session.notes_data = true;
  char never_filled = 0;
  const herr_t read =
      H5Dread_chunk(dataset, H5P_DEFAULT, corner.data(), &chunk.skipped, &never_filled);
  session.notes_data = false;
  if (read < 0 && !session.failure && !session.pages.wanted() &&
      H5Eget_num(H5E_DEFAULT) == kErrorsOfMissingChunk) {
    H5Eclear2(H5E_DEFAULT);
    return Hdf5Chunk{};
  }
  if (read < 0 || !session.data) return corrupt("its chunks");
  chunk.extent = *session.data;
  if (chunk.is_missing()) return fail(ErrorCode::kCorruption, "a chunk of 0 bytes");
  return chunk;
}

Status find_chunks(hid_t dataset, Hdf5ReadSession& session, Hdf5Source& source) {
  const Hdf5Dataset& found = source.dataset;
  const size_t axes = found.chunk.size();
  std::vector<hsize_t> corner(axes, 0);
  source.chunks.reserve(found.chunk_rows() * found.chunks_per_row());
  for (;;) {
    source.chunks.push_back(FB_TRY(find_chunk(dataset, corner, session)));
    size_t axis = axes;
    while (axis > 0) {
      --axis;
      corner[axis] += found.chunk[axis];
      if (corner[axis] < found.array.shape[axis]) break;
      corner[axis] = 0;
      if (axis == 0) return {};
    }
  }
}

Status read_dataset(hid_t dataset, Hdf5ReadSession& session, Hdf5Source& source) {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  const Hdf5Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  if (!type.is_open() || !creation.is_open()) return corrupt("its description");
  const Hdf5Element element = FB_TRY(element_of(type.id()));
  Hdf5Dataset& found = source.dataset;
  found.array = {.type = element.type,
                 .is_big_endian = element.is_big_endian,
                 .shape = FB_TRY(shape_of(dataset))};
  FB_TRY(array_bytes(found.array));
  if (H5Pget_external_count(creation.id()) > 0)
    return fail(ErrorCode::kUnsupported, "its data lie in other files (external storage)");
  found.fill = FB_TRY(fill_of(creation.id(), type.id()));
  switch (H5Pget_layout(creation.id())) {
    case H5D_CONTIGUOUS:
      return use_contiguous(dataset, source);
    case H5D_CHUNKED:
      found.filters = FB_TRY(filters_of(creation.id(), H5Tget_size(type.id())));
      FB_TRY(read_chunk_shape(creation.id(), found));
      return find_chunks(dataset, session, source);
    case H5D_COMPACT:
      return fail(
          ErrorCode::kUnsupported,
          "its data lie in the object header (compact storage), not in blocks of their own");
    case H5D_VIRTUAL:
      return fail(ErrorCode::kUnsupported, "a virtual data set, made of others");
    default:
      return corrupt("its storage");
  }
}

Result<std::vector<Hdf5Source>> read_all(Hdf5ReadSession& session,
                                         const std::vector<std::string>& names) {
  const Hdf5Handle file = FB_TRY(open_hdf5(session));
  std::vector<Hdf5Source> sources;
  for (const std::string& name : names.empty() ? FB_TRY(choose_names(file.id())) : names) {
    const Hdf5Handle dataset = FB_TRY(open_dataset(file.id(), name));
    Hdf5Source source{.name = name, .dataset = {}, .chunks = {}};
    FB_TRY(read_dataset(dataset.id(), session, source).context("data set " + name));
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace

Result<std::vector<Hdf5Source>> read_hdf5_metadata(Hdf5Pages& pages,
                                                   const std::vector<std::string>& names) {
  FB_TRY(pages.fetch(0));
  // A page that is absent fails the library's call; it is fetched and the call made again, so that
  // many files wait for a far store at once. Much metadata is fetched under the lock instead.
  for (int tries = 0;; ++tries) {
    Hdf5ReadSession session{.pages = pages, .may_fetch = tries >= kTriesWithoutLock};
    auto sources = [&] {
      const Hdf5Lock lock;
      return read_all(session, names);
    }();
    if (session.failure) return *std::move(session.failure);
    if (!pages.wanted()) return std::move(sources).context(pages.path());
    FB_TRY(pages.fetch(*pages.wanted()));
  }
}

}  // namespace forebay::formats
