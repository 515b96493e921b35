#include "formats/extent_list.h"

#include <algorithm>
#include <utility>

namespace forebay::formats {
namespace {

bool is_inside_file(const Extent& extent, uint64_t file_bytes) {
  return extent.length <= file_bytes && extent.offset <= file_bytes - extent.length;
}

}  // namespace

ExtentList::ExtentList(std::initializer_list<Extent> extents) {
  for (const Extent& extent : extents) push_back(extent);
}

ExtentList ExtentList::even(Extent first, uint64_t stride, uint64_t count) {
  ExtentList list;
  if (count == 0) return list;
  list.first_ = first;
  list.count_ = count;
  list.stride_ = count > 1 ? stride : 0;
  return list;
}

void ExtentList::push_back(Extent extent) {
  if (is_even_) {
    if (count_ == 0) first_ = extent;
    const bool is_as_long = extent.length == first_.length;
    // Backwards would be a stride that wraps.
    if (count_ == 1 && is_as_long && extent.offset >= first_.offset)
      stride_ = extent.offset - first_.offset;
    if (is_as_long && extent.offset == first_.offset + count_ * stride_) {
      ++count_;
      return;
    }
    std::vector<Extent> each;
    each.reserve(count_ + 1);
    for (uint64_t i = 0; i < count_; ++i) each.push_back((*this)[i]);
    each_ = std::move(each);
    is_even_ = false;
    first_ = {};
    stride_ = 0;
  }
  each_.push_back(extent);
  ++count_;
}

void ExtentList::truncate(uint64_t count) {
  if (count >= count_) return;
  if (is_even_) {
    *this = even(first_, stride_, count);
    return;
  }
  ExtentList kept;  // the beginning of an uneven list may be even
  for (uint64_t i = 0; i < count; ++i) kept.push_back(each_[i]);
  *this = std::move(kept);
}

bool ExtentList::is_inside(uint64_t file_bytes) const {
  if (!is_even_)
    return std::all_of(each_.begin(), each_.end(), [file_bytes](const Extent& extent) {
      return is_inside_file(extent, file_bytes);
    });
  if (count_ == 0) return true;
  // The last one lies furthest. A sum that wraps passes the end of any file on its way.
  Extent last = first_;
  uint64_t way = 0;
  if (__builtin_mul_overflow(stride_, count_ - 1, &way) ||
      __builtin_add_overflow(first_.offset, way, &last.offset))
    return false;
  return is_inside_file(last, file_bytes);
}

}  // namespace forebay::formats
