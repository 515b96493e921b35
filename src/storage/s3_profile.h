// Profiles: the files ~/.aws/credentials and ~/.aws/config.
//
// Pure functions; safe from any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "forebay/result.h"

namespace forebay::storage {

// Keys and values of one section. Keys below an indented block are "block.key".
using Profile = std::map<std::string, std::string, std::less<>>;

// The sections of an INI file by name; "profile x" is "x". `path` is for messages, which never
// repeat a value.
Result<std::map<std::string, Profile, std::less<>>> parse_profiles(std::string_view path,
                                                                   std::string_view text);

}  // namespace forebay::storage
