// Small text questions that several rooms ask.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::base {

// The known name nearest to a mistyped one, or "" when none is near enough to suggest.
std::string nearest_name(std::string_view typed, std::span<const std::string_view> known);

// "no storage named 'urng'; did you mean 'uring'? (known: direct, local, ...)"
std::string unknown_name_message(std::string_view kind, std::string_view typed,
                                 std::span<const std::string_view> known);

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string to_lower(std::string_view text);

// Shell-style match with * ? and [a-z]; '*' also matches '/'.
bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace forebay::base
