// The HDF5 library's way to a file of a Store: it reads metadata from pages, and never data.
//
// Call with a Hdf5Lock held.
#pragma once

#include <cstdint>
#include <optional>

#include "forebay/result.h"
#include "formats/format.h"
#include "formats/hdf5_library.h"
#include "formats/hdf5_pages.h"

namespace forebay::formats {

// State of one open file, shared with the driver. Must outlive the file.
struct Hdf5ReadSession {
  Hdf5Pages& pages;
  bool may_fetch = false;          // else a page that is absent fails the library's call
  bool notes_data = false;         // reads of data are noted and deliver nothing
  std::optional<Extent> data{};    // the last one noted
  std::optional<Error> failure{};  // of the store
  uint64_t end_of_allocation = 0;  // the library's own note
};

// Opens the file of `session`.
Result<Hdf5Handle> open_hdf5(Hdf5ReadSession& session);

}  // namespace forebay::formats
