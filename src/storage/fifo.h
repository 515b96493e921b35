// A queue in one ring of memory: grows when full, never shrinks, so a steady flow allocates
// nothing.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace forebay::storage {

template <class T>
class Fifo {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  T& front() { return slots_[head_]; }

  void push(T item) {
    if (count_ == slots_.size()) grow();
    slots_[(head_ + count_) & (slots_.size() - 1)] = std::move(item);
    ++count_;
  }

  // Undefined when empty, as front().
  T pop() {
    T item = std::move(slots_[head_]);
    head_ = (head_ + 1) & (slots_.size() - 1);
    --count_;
    return item;
  }

  void clear() {
    while (!empty()) pop();
  }

 private:
  void grow() {
    std::vector<T> wider(slots_.empty() ? 16 : slots_.size() * 2);
    for (size_t i = 0; i < count_; ++i) {
      wider[i] = std::move(slots_[(head_ + i) & (slots_.size() - 1)]);
    }
    slots_ = std::move(wider);
    head_ = 0;
  }

  std::vector<T> slots_;  // a power of two
  size_t head_ = 0;
  size_t count_ = 0;
};

}  // namespace forebay::storage
