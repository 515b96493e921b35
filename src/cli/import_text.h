// What an import took, mended and passed over, in words for people: file by file where there are
// few, else in sums.
//
// Pure functions.
#pragma once

#include <string>

#include "ingest/import.h"

namespace forebay::cli {

// What `forebay import` prints.
std::string import_text(const ingest::Imported& imported, const std::string& folder);

// What could not be taken, a line a reason, each begun by "forebay: "; empty when everything was.
std::string losses_text(const ingest::Imported& imported);

}  // namespace forebay::cli
