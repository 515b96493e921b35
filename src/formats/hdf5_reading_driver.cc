#include "formats/hdf5_reading_driver.h"

#include <cstring>
#include <functional>
#include <memory>

#include "base/error.h"

namespace forebay::formats {
namespace {

struct DriverInfo {
  Hdf5ReadSession* session;
};

// What the library takes for an open file: its own part first.
struct OpenFile {
  H5FD_t own;
  Hdf5ReadSession* session;
  haddr_t end_of_allocation;
};

OpenFile* open_file(H5FD_t* file) {
  return reinterpret_cast<OpenFile*>(file);
}
const OpenFile* open_file(const H5FD_t* file) {
  return reinterpret_cast<const OpenFile*>(file);
}

H5FD_t* driver_open(const char* name, unsigned flags, hid_t access, haddr_t /*limit*/) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access));
  // Links and virtual data sets name other files; none of those is opened.
  if (info == nullptr || (flags & H5F_ACC_RDWR) != 0 || info->session->pages.path() != name)
    return nullptr;
  auto file = std::make_unique<OpenFile>();
  file->session = info->session;
  return &file.release()->own;  // until driver_close()
}

herr_t driver_close(H5FD_t* file) {
  const std::unique_ptr<OpenFile> owned(open_file(file));
  return 0;
}

int driver_compare(const H5FD_t* a, const H5FD_t* b) {
  if (a == b) return 0;
  return std::less<const H5FD_t*>()(a, b) ? -1 : 1;
}

herr_t driver_query(const H5FD_t* /*file*/, unsigned long* flags) {
  if (flags != nullptr) *flags = 0;
  return 0;
}

haddr_t driver_get_allocation(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return open_file(file)->end_of_allocation;
}

herr_t driver_set_allocation(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
  open_file(file)->end_of_allocation = end;
  return 0;
}

haddr_t driver_get_end(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return open_file(file)->session->pages.size();
}

herr_t driver_read(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t offset, size_t length,
                   void* buffer) {
  Hdf5ReadSession& session = *open_file(file)->session;
  // Outside find_chunk(), "data" are global heaps: the library is never asked to read elements.
  if (type == H5FD_MEM_DRAW && session.notes_data) {
    session.data = Extent{offset, length};
    return 0;
  }
  Hdf5Pages& pages = session.pages;
  // A length that the file cannot hold is not read as zeros, as other drivers do.
  if (offset > pages.size() || length > pages.size() - offset) return -1;
  const std::span<std::byte> out(static_cast<std::byte*>(buffer), length);
  while (!pages.copy(offset, out)) {
    if (!session.may_fetch) return -1;
    Status fetched = pages.fetch(*pages.wanted());
    if (!fetched.ok()) {
      session.failure = std::move(fetched).error();
      return -1;
    }
  }
  return 0;
}

herr_t driver_write(H5FD_t* /*file*/, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t /*offset*/,
                    size_t /*length*/, const void* /*buffer*/) {
  return -1;
}

hid_t driver_id() {
  static const hid_t id = [] {
    H5FD_class_t driver{};
    driver.name = "forebay_reading";
    driver.maxaddr = INT64_MAX;
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(DriverInfo);
    driver.open = driver_open;
    driver.close = driver_close;
    driver.cmp = driver_compare;
    driver.query = driver_query;
    driver.get_eoa = driver_get_allocation;
    driver.set_eoa = driver_set_allocation;
    driver.get_eof = driver_get_end;
    driver.read = driver_read;
    driver.write = driver_write;
    const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
    std::memcpy(driver.fl_map, map, sizeof map);
    return H5FDregister(&driver);
  }();
  return id;
}

}  // namespace

Result<Hdf5Handle> open_hdf5(Hdf5ReadSession& session) {
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  const DriverInfo info{&session};
  if (!access.is_open() || H5Pset_driver(access.id(), driver_id(), &info) < 0 ||
      H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG) < 0)
    return hdf5_error(ErrorCode::kIo, "cannot set up the HDF5 library");
  Hdf5Handle file(H5Fopen(session.pages.path().c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  if (!file.is_open()) return hdf5_error(ErrorCode::kCorruption, "not a whole HDF5 file");
  return file;
}

}  // namespace forebay::formats
