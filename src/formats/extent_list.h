// Ranges of bytes in a file, one per sample. Equally long ones at equal distances, as records of a
// fixed size have them, cost the same few bytes whatever their number; others 16 bytes each.
//
// A value; safe to read from any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace forebay::formats {

struct Extent {
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const Extent&) const = default;
};

class ExtentList {
 public:
  ExtentList() = default;
  ExtentList(std::initializer_list<Extent> extents);
  // `count` extents as long as `first`, each `stride` bytes behind the one before.
  static ExtentList even(Extent first, uint64_t stride, uint64_t count);

  void push_back(Extent extent);
  void truncate(uint64_t count);  // leaves the first `count`
  void shrink_to_fit() { each_.shrink_to_fit(); }

  uint64_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Extent operator[](uint64_t i) const {
    return is_even_ ? Extent{first_.offset + i * stride_, first_.length} : each_[i];
  }
  Extent back() const { return (*this)[count_ - 1]; }

  // Lists with the same extents are equal, however they were made.
  bool operator==(const ExtentList&) const = default;
  bool is_even() const { return is_even_; }
  uint64_t stride() const { return stride_; }  // 0 for fewer than two extents, and where not even
  // Whether every extent lies in a file of `file_bytes`.
  bool is_inside(uint64_t file_bytes) const;
  uint64_t heap_bytes() const { return each_.capacity() * sizeof(Extent); }

  class Iterator {  // enough for a loop
   public:
    Iterator(const ExtentList* list, uint64_t at) : list_(list), at_(at) {}
    Extent operator*() const { return (*list_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const ExtentList* list_;
    uint64_t at_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, count_}; }

 private:
  // Even lists have first_ and stride_, and each_ empty; others the reverse. A list that can be
  // even is: so equal lists have equal members.
  bool is_even_ = true;
  uint64_t count_ = 0;
  Extent first_;
  uint64_t stride_ = 0;
  std::vector<Extent> each_;
};

}  // namespace forebay::formats
