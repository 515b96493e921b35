// Where data lies, as users write it: a folder, or "s3://BUCKET/PREFIX".
//
// Safe from any thread; but for place_identity() pure functions.
#pragma once

#include <string>
#include <string_view>

#include "forebay/result.h"

namespace forebay::storage {

// Starts with "s3://", in letters of any case.
bool is_object_place(std::string_view place);

// The same place in its plain form: no "//" between names, none of '/' at the end, the scheme in
// lower case. kInvalidArgument, with the remedy, for what would be taken for a folder of such a
// name and is hardly one: "s3:/BUCKET" and its kin, other schemes, "~/x" that no shell has seen.
Result<std::string> normal_place(std::string_view place);

// The same text for all ways to write one place as the file system is now: by "..", links or
// mounts, whether it exists yet or not. For comparing only.
Result<std::string> place_identity(std::string_view place);

}  // namespace forebay::storage
