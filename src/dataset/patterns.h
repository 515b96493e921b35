// Patterns that choose files: imagenet-{00000..01281}.tar, {train,val}/**/*.npz.
//
//   {a,b}        a or b; may be nested, may be empty: img{,_extra}
//   {000..127}   numbers, with zeros in front where an end has them; {10..0..2} counts in steps
//   {a..e}       letters
//   * ?          any characters, one character of a name; no '/'
//   **           as a whole part of a path: any number of folders, none included
//   \c           the character c as it is: folder\{1\}/a\,b.npz
//
// Functions are pure and safe to call from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"

namespace forebay::dataset {

// Has any of the characters that mean something in a pattern.
bool is_pattern(std::string_view text);
// `text` as a pattern that means just itself.
std::string escape_pattern(std::string_view text);

// Braces written out, in order. kInvalidArgument for more than 10 million results, a range with
// ends of two kinds, or a '\' at the end. What is not a list or a range ({a}) stays as it is.
Result<std::vector<std::string>> expand_braces(std::string_view pattern);

// Of a pattern without braces: whether it has * or ?, and, when not, the path that it means.
bool has_wildcards(std::string_view pattern);
std::string unescape_pattern(std::string_view pattern);
// Both with '/' between folders.
bool path_matches(std::string_view pattern, std::string_view path);

// The folder that everything the pattern (with braces or without) can mean lies in, as far as it is
// written out: "a/b" for "a/b/*.npz", "a" for "a/{b,c}"; of "a/b" too that is "a".
std::string literal_folder(std::string_view pattern);

}  // namespace forebay::dataset
