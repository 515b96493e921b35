// Well-formed UTF-8: names and paths end up in JSON, which can carry nothing else.
#pragma once

#include <cstddef>
#include <string_view>

namespace forebay::base {

// Length in bytes of the well-formed sequence at the front of `text`, or 0 when there is none.
inline size_t utf8_length(std::string_view text) {
  const auto in_range = [&](size_t i, unsigned low, unsigned high) {
    if (i >= text.size()) return false;
    const unsigned byte = static_cast<unsigned char>(text[i]);
    return byte >= low && byte <= high;
  };
  const auto follows = [&](size_t i) { return in_range(i, 0x80, 0xbf); };
  if (in_range(0, 0x00, 0x7f)) return 1;
  if (in_range(0, 0xc2, 0xdf)) return follows(1) ? 2 : 0;
  if (in_range(0, 0xe0, 0xef)) {
    const bool second = in_range(0, 0xe0, 0xe0)   ? in_range(1, 0xa0, 0xbf)  // no overlong forms
                        : in_range(0, 0xed, 0xed) ? in_range(1, 0x80, 0x9f)  // no surrogates
                                                  : follows(1);
    return second && follows(2) ? 3 : 0;
  }
  if (in_range(0, 0xf0, 0xf4)) {
    const bool second = in_range(0, 0xf0, 0xf0)   ? in_range(1, 0x90, 0xbf)
                        : in_range(0, 0xf4, 0xf4) ? in_range(1, 0x80, 0x8f)  // at most U+10FFFF
                                                  : follows(1);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace forebay::base
