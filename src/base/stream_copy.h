// A copy of more than the caches hold: past them, so that a line is not read before it is
// overwritten. memcpy does that only for single calls of about the last-level cache's size and more
// (glibc's x86_non_temporal_threshold); copies in pieces cost twice as much with it.
//
// Any thread.
#pragma once

#include <cstddef>
#include <span>

namespace forebay::base {

// `to` has room for `from`; they do not overlap. Every byte is visible to threads that are told of
// it afterwards, as with memcpy.
void stream_copy(std::byte* to, std::span<const std::byte> from);

}  // namespace forebay::base
