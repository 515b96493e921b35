#include "formats/hdf5_reading_driver.h"

#include "base/error.h"
#include "formats/hdf5_driver.h"

namespace forebay::formats {
namespace {

using Driver = Hdf5Driver<Hdf5ReadSession>;

H5FD_t* driver_open(const char* name, unsigned flags, hid_t access, haddr_t /*limit*/) {
  Hdf5ReadSession* session = Driver::session_in(access);
  // Links and virtual data sets name other files; none of those is opened.
  if (session == nullptr || (flags & H5F_ACC_RDWR) != 0 || session->pages.path() != name)
    return nullptr;
  return Driver::open(*session);
}

herr_t driver_query(const H5FD_t* /*file*/, unsigned long* flags) {
  if (flags != nullptr) *flags = 0;
  return 0;
}

haddr_t driver_get_allocation(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return Driver::session_of(file).end_of_allocation;
}

herr_t driver_set_allocation(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
  Driver::session_of(file).end_of_allocation = end;
  return 0;
}

haddr_t driver_get_end(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return Driver::session_of(file).pages.size();
}

herr_t driver_read(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t offset, size_t length,
                   void* buffer) {
  Hdf5ReadSession& session = Driver::session_of(file);
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
    H5FD_class_t driver = Driver::table("forebay_reading");
    driver.open = driver_open;
    driver.query = driver_query;
    driver.get_eoa = driver_get_allocation;
    driver.set_eoa = driver_set_allocation;
    driver.get_eof = driver_get_end;
    driver.read = driver_read;
    driver.write = driver_write;
    return H5FDregister(&driver);
  }();
  return id;
}

}  // namespace

Result<Hdf5Handle> open_hdf5(Hdf5ReadSession& session) {
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (!access.is_open() || !Driver::set(access.id(), driver_id(), session))
    return hdf5_error(ErrorCode::kIo, "cannot set up the HDF5 library");
  Hdf5Handle file(H5Fopen(session.pages.path().c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  if (!file.is_open()) return hdf5_error(ErrorCode::kCorruption, "not a whole HDF5 file");
  return file;
}

}  // namespace forebay::formats
