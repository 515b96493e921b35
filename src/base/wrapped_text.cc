#include "base/wrapped_text.h"

#include <algorithm>

namespace forebay::base {

size_t width_of(std::string_view text) {
  // Continuation bytes take no column.
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string wrapped(std::string_view text, const std::string& first, const std::string& next,
                    size_t columns) {
  std::string out, line = first;
  bool is_empty = true;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    // A number keeps its percent sign.
    if (text.substr(end, 2) == " %") end = std::min(text.find(' ', end + 1), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (!is_empty && width_of(line) + 1 + width_of(word) > columns) {
      out += line + "\n";
      line = next;
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    is_empty = false;
  }
  return out + line + "\n";
}

}  // namespace forebay::base
