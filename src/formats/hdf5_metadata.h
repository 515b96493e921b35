// Which data sets of an HDF5 file are its samples, and where their bytes lie, as the library tells.
//
// Any thread; takes the Hdf5Lock.
#pragma once

#include <string>
#include <vector>

#include "forebay/result.h"
#include "formats/hdf5_layout.h"
#include "formats/hdf5_pages.h"

namespace forebay::formats {

// The data sets `names` of the file, or where that is empty: `records_0`, `records_1`, ... (DLIO
// and MLPerf v3.0); else `records` (MLPerf v2.0); else the only data set, or the one of numbers
// with the most bytes, the first by path among equals.
//
// kUnsupported names what Forebay does not read: types that are not numbers, filters, compact,
// external and virtual storage. Errors name the file. Reads of the store happen outside the lock,
// but for files with much metadata.
Result<std::vector<Hdf5Source>> read_hdf5_metadata(Hdf5Pages& pages,
                                                   const std::vector<std::string>& names);

}  // namespace forebay::formats
