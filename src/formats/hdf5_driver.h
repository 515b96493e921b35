// What drivers of the HDF5 library have in common: a table of calls, and behind each open file the
// Session that its access list named.
//
// Call with a Hdf5Lock held. A session must outlive its file.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "formats/hdf5_library.h"

namespace forebay::formats {

template <class Session>
class Hdf5Driver {
 public:
  // The session that `access` names, or null: the list may be of another driver.
  static Session* session_in(hid_t access) {
    const auto* info = static_cast<Session* const*>(H5Pget_driver_info(access));
    return info == nullptr ? nullptr : *info;
  }
  static Session& session_of(const H5FD_t* file) {
    return *reinterpret_cast<const OpenFile*>(file)->session;
  }

  // Until the library calls the table's close.
  static H5FD_t* open(Session& session) {
    auto file = std::make_unique<OpenFile>();
    file->session = &session;
    return &file.release()->own;
  }

  // Lacks what drivers differ in: open, query, the ends of the file, read and write.
  static H5FD_class_t table(const char* name) {
    H5FD_class_t driver{};
    driver.name = name;
    driver.maxaddr = INT64_MAX;
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(Session*);
    driver.close = close;
    driver.cmp = compare;
    const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
    std::memcpy(driver.fl_map, map, sizeof map);
    return driver;
  }

  // Makes the file that `access` opens one of `driver` and `session`. False on an error.
  static bool set(hid_t access, hid_t driver, Session& session) {
    Session* const info = &session;
    return H5Pset_driver(access, driver, &info) >= 0 &&
           H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) >= 0;
  }

 private:
  // What the library takes for an open file: its own part first.
  struct OpenFile {
    H5FD_t own;
    Session* session;
  };

  static herr_t close(H5FD_t* file) {
    const std::unique_ptr<OpenFile> owned(reinterpret_cast<OpenFile*>(file));
    return 0;
  }
  static int compare(const H5FD_t* a, const H5FD_t* b) {
    if (a == b) return 0;
    return std::less<const H5FD_t*>()(a, b) ? -1 : 1;
  }
};

}  // namespace forebay::formats
