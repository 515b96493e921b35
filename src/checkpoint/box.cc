#include "checkpoint/box.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

namespace forebay::checkpoint {

uint64_t element_count(std::span<const uint64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

bool do_meet(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.shape.size(); ++d) {
    const uint64_t begin = std::max(a.start[d], b.start[d]);
    const uint64_t end = std::min(a.start[d] + a.shape[d], b.start[d] + b.shape[d]);
    if (begin >= end) return false;
  }
  return true;
}

namespace {

// Dimensions at the end along which both boxes are the same whole: their elements follow each other
// in both. The one before them, if any, is the row that runs are cut from.
size_t common_tail(const Box& a, const Box& b) {
  size_t d = a.shape.size();
  while (d > 0 && a.start[d - 1] == b.start[d - 1] && a.shape[d - 1] == b.shape[d - 1]) --d;
  return d;
}

}  // namespace

void copy_common(const Box& from, uint64_t offset, std::span<const std::byte> bytes, const Box& to,
                 std::span<std::byte> out, uint64_t element_bytes) {
  const size_t tail = common_tail(from, to);
  const std::span<const uint64_t> from_shape(from.shape), to_shape(to.shape);
  const uint64_t unit_bytes = element_bytes * element_count(from_shape.subspan(tail));
  if (bytes.empty() || unit_bytes == 0) return;
  if (tail == 0) {  // the same box
    std::memcpy(out.data() + offset, bytes.data(), bytes.size());
    return;
  }
  const size_t row = tail - 1;  // the dimension along which a row runs
  const uint64_t row_bytes = from.shape[row] * unit_bytes;
  // What both have of each row, from its front.
  const uint64_t begin = std::max(from.start[row], to.start[row]);
  const uint64_t end = std::min(from.start[row] + from.shape[row], to.start[row] + to.shape[row]);
  if (begin >= end) return;
  const uint64_t front = (begin - from.start[row]) * unit_bytes;
  const uint64_t back = (end - from.start[row]) * unit_bytes;
  const uint64_t limit = offset + bytes.size();
  for (uint64_t r = offset / row_bytes; r * row_bytes < limit; ++r) {
    const uint64_t first = std::max(offset, r * row_bytes + front);
    const uint64_t last = std::min(limit, r * row_bytes + back);
    if (first >= last) continue;
    // Where the row lies in `to`, from its last outer dimension to its first.
    uint64_t rest = r, at = 0, stride = 1;
    bool is_inside = true;
    for (size_t d = row; d-- > 0;) {
      const uint64_t place = from.start[d] + rest % from.shape[d];
      rest /= from.shape[d];
      is_inside = is_inside && place >= to.start[d] && place - to.start[d] < to.shape[d];
      at += is_inside ? (place - to.start[d]) * stride : 0;
      stride *= to.shape[d];
    }
    if (!is_inside) continue;
    const uint64_t to_front = (at * to.shape[row] + (begin - to.start[row])) * unit_bytes;
    std::memcpy(out.data() + to_front + (first - (r * row_bytes + front)),
                bytes.data() + (first - offset), last - first);
  }
}

}  // namespace forebay::checkpoint
