// What strace writes for the arguments of a call: quoted texts, descriptors, addresses, lists.
//
// Pure functions. Texts they give are valid UTF-8 without control characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::ingest {

// The first quoted text: "...", with C's escapes resolved.
std::optional<std::string> quoted(std::string_view text);

// One of the arguments of a call, from 0; what is in brackets and quotation marks stays together.
// Empty when there are not that many.
std::string_view argument(std::string_view arguments, size_t which);

struct WrittenDescriptor {
  int64_t number = -1;  // -1: AT_FDCWD
  std::string name;     // as -y and -yy tell it, in the form of trace files; else empty
};

// "3", "3</data/a>", "3<TCP:[10.0.0.1:5000->10.0.0.2:80]>", "AT_FDCWD</home>" at the start of the
// text; nothing for what is none: "0x7f00", "NULL".
std::optional<WrittenDescriptor> written_descriptor(std::string_view text);

// "[3, 4<pipe:[7]>]" behind `label`; at most 256.
std::vector<WrittenDescriptor> descriptors_behind(std::string_view text, std::string_view label);

// "10.0.0.2:80", "[::1]:80", the path of a Unix socket; nothing when no address is written.
struct WrittenAddress {
  bool is_unix = false;
  std::string text;
};
std::optional<WrittenAddress> written_address(std::string_view arguments);

}  // namespace forebay::ingest
