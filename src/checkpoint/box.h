// Boxes of arrays in C order: what two of them have in common, copied from one's bytes into the
// other's.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace forebay::checkpoint {

struct Box {
  std::vector<uint64_t> start, shape;  // in the whole tensor
};

uint64_t element_count(std::span<const uint64_t> shape);
bool do_meet(const Box& a, const Box& b);

// Bytes [offset, offset + bytes.size()) of `from`'s array are `bytes`: copies those that `to` has
// as well to their places in `out`, the bytes of `to`'s array. Both boxes have the same number of
// dimensions. `offset` may stand inside an element.
void copy_common(const Box& from, uint64_t offset, std::span<const std::byte> bytes, const Box& to,
                 std::span<std::byte> out, uint64_t element_bytes);

}  // namespace forebay::checkpoint
