// A keyed permutation of 0 .. count-1 that needs no memory per element: a Feistel network whose two
// halves are digits of a mixed-radix number, with cycle walking for the few values past `count`.
//
// Immutable; safe to use from any thread. Inline because it is called once per sample.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.h"

namespace forebay::dataset {

class Permutation {
 public:
  // Largest count whose digits fit the 32-bit multiply of round_value().
  static constexpr uint64_t kCountMax = uint64_t{1} << 62;

  Permutation() = default;

  // count <= kCountMax. The walked domain is smaller than count + 2 sqrt(count) + 2, so that a
  // second walk is rare except for a handful of elements.
  explicit Permutation(uint64_t count)
      : count_(count), high_(digit_for(count)), low_(count == 0 ? 1 : (count - 1) / high_ + 1) {
    // Small digits mix less in each round; these counts leave every order of up to 7 elements
    // equally likely as far as a million keys can tell.
    rounds_ = count < 256 ? 48 : count < (uint64_t{1} << 20) ? 12 : 10;
  }

  // Leaves every element where it is.
  static Permutation identity(uint64_t count) {
    Permutation same(count);
    same.rounds_ = 0;
    return same;
  }

  uint64_t count() const { return count_; }

  // value < count(); so is the result.
  uint64_t forward(uint64_t key, uint64_t value) const {
    do value = forward_once(key, value);
    while (value >= count_);
    return value;
  }

  // backward(key, forward(key, v)) == v.
  uint64_t backward(uint64_t key, uint64_t value) const {
    do value = backward_once(key, value);
    while (value >= count_);
    return value;
  }

 private:
  // The least even digit whose square holds the count. Even, because rounds over two odd radices
  // only make even permutations, which cycle walking would pass on as a bias.
  static uint64_t digit_for(uint64_t count) {
    auto digit = static_cast<uint64_t>(std::sqrt(static_cast<double>(count)));
    while (digit * digit < count) ++digit;
    return count < 2 ? 1 : digit + digit % 2;
  }

  // Uniform in [0, radix) up to 2^-32. Keys of rounds are far apart, so no input repeats.
  static uint64_t round_value(uint64_t key, int round, uint64_t digit, uint64_t radix) {
    constexpr uint64_t kRoundStep = 0xd1342543de82ef95u;
    const uint64_t mixed =
        base::mix64(key + static_cast<uint64_t>(round) * kRoundStep + digit) >> 32;
    return mixed * radix >> 32;
  }
  static uint64_t add(uint64_t a, uint64_t b, uint64_t radix) {
    const uint64_t sum = a + b;
    return sum >= radix ? sum - radix : sum;
  }
  static uint64_t subtract(uint64_t a, uint64_t b, uint64_t radix) {
    return a >= b ? a - b : a + radix - b;
  }

  uint64_t forward_once(uint64_t key, uint64_t value) const {
    uint64_t high = value / low_, low = value % low_;
    for (int round = 0; round < rounds_; round += 2) {
      high = add(high, round_value(key, round, low, high_), high_);
      low = add(low, round_value(key, round + 1, high, low_), low_);
    }
    return high * low_ + low;
  }

  uint64_t backward_once(uint64_t key, uint64_t value) const {
    uint64_t high = value / low_, low = value % low_;
    for (int round = rounds_ - 2; round >= 0; round -= 2) {
      low = subtract(low, round_value(key, round + 1, high, low_), low_);
      high = subtract(high, round_value(key, round, low, high_), high_);
    }
    return high * low_ + low;
  }

  uint64_t count_ = 0;
  uint64_t high_ = 1, low_ = 1;  // radices; high_ * low_ >= count_
  int rounds_ = 0;
};

}  // namespace forebay::dataset
