// Text broken into lines that fit a terminal.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace forebay::base {

// Columns that UTF-8 takes in a terminal; wide characters count as one.
size_t width_of(std::string_view text);

// Lines that end in "\n" and are at most `columns` wide: the first begins with `first`, the others
// with `next`. Breaks at spaces; a word that is longer than a line stays whole.
std::string wrapped(std::string_view text, const std::string& first, const std::string& next,
                    size_t columns);

}  // namespace forebay::base
