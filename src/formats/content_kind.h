// Says what a file really is, so that a wrong one is named and not just refused.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "forebay/result.h"
#include "formats/byte_source.h"

namespace forebay::formats {

// "empty file", "git-lfs pointer", "text/html", "image/gif", ... from the first bytes; "unknown
// content" when nothing known fits. 64 bytes are enough.
std::string_view content_kind(std::span<const std::byte> head);

bool is_jpeg(std::span<const std::byte> head);
bool is_png(std::span<const std::byte> head);
bool is_gzip(std::span<const std::byte> head);
bool is_zlib(std::span<const std::byte> head);  // a guess: the magic has only 11 fixed bits
bool is_lfs_pointer(std::span<const std::byte> head);

// kCorruption with the remedy when `head` begins what git-lfs leaves in the place of a file.
Status refuse_lfs_pointer(std::span<const std::byte> head);
// `error`, unless `source` is such a pointer: that explains more.
Error explain_lfs_pointer(ByteSource& source, Error error);

}  // namespace forebay::formats
