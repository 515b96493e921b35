// Builds an Error with a formatted message.
#pragma once

#include <fmt/core.h>

#include <utility>

#include "forebay/result.h"

namespace forebay {

// fail(ErrorCode::kCorruption, "{}: crc {:#010x}, expected {:#010x}", path, got, expected)
template <class... Args>
Error fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace forebay
