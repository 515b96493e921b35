#include "sys/environment.h"

#include <cstdlib>

namespace forebay::sys {

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace forebay::sys
