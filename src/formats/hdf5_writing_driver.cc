#include "formats/hdf5_writing_driver.h"

#include <algorithm>
#include <cstring>

#include "formats/hdf5_driver.h"

namespace forebay::formats {

void Hdf5Image::put(uint64_t offset, std::span<const std::byte> bytes) {
  auto piece = pieces_.upper_bound(offset);
  if (piece != pieces_.begin()) --piece;
  while (!bytes.empty()) {
    while (piece != pieces_.end() && piece->first + piece->second.size() <= offset) ++piece;
    const bool is_inside = piece != pieces_.end() && piece->first <= offset;
    const uint64_t room = is_inside                ? piece->first + piece->second.size() - offset
                          : piece != pieces_.end() ? piece->first - offset
                                                   : bytes.size();
    const size_t n = std::min<uint64_t>(room, bytes.size());
    const auto part = bytes.first(n);
    if (is_inside)
      std::copy(part.begin(), part.end(),
                piece->second.begin() + static_cast<ptrdiff_t>(offset - piece->first));
    else
      pieces_.emplace(offset, std::vector<std::byte>(part.begin(), part.end()));
    offset += n;
    bytes = bytes.subspan(n);
  }
}

void Hdf5Image::get(uint64_t offset, std::span<std::byte> out) const {
  std::fill(out.begin(), out.end(), std::byte{0});
  const uint64_t end = offset + out.size();
  auto piece = pieces_.upper_bound(offset);
  if (piece != pieces_.begin()) --piece;
  for (; piece != pieces_.end() && piece->first < end; ++piece) {
    const uint64_t from = std::max(offset, piece->first);
    const uint64_t to = std::min(end, piece->first + piece->second.size());
    if (from < to)
      std::memcpy(out.data() + (from - offset), piece->second.data() + (from - piece->first),
                  to - from);
  }
}

namespace {

using Driver = Hdf5Driver<Hdf5Image>;

H5FD_t* driver_open(const char* /*name*/, unsigned /*flags*/, hid_t access, haddr_t /*limit*/) {
  Hdf5Image* image = Driver::session_in(access);
  return image == nullptr ? nullptr : Driver::open(*image);
}

herr_t driver_query(const H5FD_t* /*file*/, unsigned long* flags) {
  // Data are laid down in the order of writing: small data are not put together elsewhere.
  if (flags != nullptr) *flags = H5FD_FEAT_AGGREGATE_METADATA;
  return 0;
}

haddr_t driver_get_end(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return Driver::session_of(file).file_bytes;
}

herr_t driver_set_end(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
  Driver::session_of(file).file_bytes = end;
  return 0;
}

herr_t driver_read(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t offset,
                   size_t length, void* buffer) {
  Driver::session_of(file).get(offset, {static_cast<std::byte*>(buffer), length});
  return 0;
}

herr_t driver_write(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t offset,
                    size_t length, const void* buffer) {
  Hdf5Image& image = Driver::session_of(file);
  if (type == H5FD_MEM_DRAW)
    image.data = Extent{offset, length};
  else
    image.put(offset, {static_cast<const std::byte*>(buffer), length});
  return 0;
}

hid_t driver_id() {
  static const hid_t id = [] {
    H5FD_class_t driver = Driver::table("forebay_writing");
    driver.open = driver_open;
    driver.query = driver_query;
    driver.get_eoa = driver_get_end;
    driver.set_eoa = driver_set_end;
    driver.get_eof = driver_get_end;
    driver.read = driver_read;
    driver.write = driver_write;
    return H5FDregister(&driver);
  }();
  return id;
}

}  // namespace

Result<Hdf5Handle> create_hdf5(Hdf5Image& image, Dialect dialect) {
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  // MLPerf v2.0 leaves h5py's default, which is the oldest layout.
  const H5F_libver_t oldest = dialect == Dialect::kMlpsV2 ? H5F_LIBVER_EARLIEST : H5F_LIBVER_LATEST;
  if (!access.is_open() || !creation.is_open() || !Driver::set(access.id(), driver_id(), image) ||
      H5Pset_libver_bounds(access.id(), oldest, H5F_LIBVER_LATEST) < 0 ||
      H5Pset_obj_track_times(creation.id(), false) < 0)
    return hdf5_error(ErrorCode::kIo, "cannot set up the HDF5 library");
  Hdf5Handle file(H5Fcreate("new", H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose);
  if (!file.is_open()) return hdf5_error(ErrorCode::kIo, "cannot lay out an HDF5 file");
  return file;
}

}  // namespace forebay::formats
