#include "base/test_folder.h"

namespace forebay::base {

std::string source_folder() {
  return FOREBAY_SOURCE_DIR;
}

}  // namespace forebay::base
