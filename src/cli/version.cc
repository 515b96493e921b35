#include "cli/version.h"

namespace forebay::cli {

const char* const kVersion = FOREBAY_VERSION;
const char* const kStartHere = "forebay generate demo --data d && forebay run demo --data d";

}  // namespace forebay::cli
