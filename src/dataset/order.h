// The order in which samples are visited: a pure function of (kind, count, seed, epoch).
//
// Immutable and free of memory per sample; safe to use from any thread. The stream of positions is
// canonical: it does not depend on how many ranks consume it.
#pragma once

#include <cstdint>
#include <string_view>

#include "forebay/result.h"

namespace forebay::dataset {

enum class OrderKind {
  kSequential,  // 0, 1, 2, ...
  kFull,        // a permutation of all samples
  kWindowed,    // shards permuted, then the samples of each window of shards permuted
};
std::string_view order_kind_name(OrderKind kind);

struct OrderOptions {
  OrderKind kind = OrderKind::kSequential;
  uint64_t sample_count = 0;
  uint64_t seed = 0;
  bool change_each_epoch = true;      // false: every epoch has epoch 0's order
  uint64_t shard_samples = 1;         // kWindowed: samples per shard; the last shard may be short
  uint64_t window_shards = 1;         // kWindowed: shards that are mixed with each other
};

class Order {
 public:
  // kInvalidArgument for windows or shards of 0 samples.
  static Result<Order> make(OrderOptions options);

  uint64_t sample_count() const { return options_.sample_count; }
  const OrderOptions& options() const { return options_; }

  // The sample at `position` of `epoch`; both below sample_count(). O(1) time expected and memory.
  uint64_t sample_at(uint64_t epoch, uint64_t position) const;
  // Its inverse: position_of(e, sample_at(e, p)) == p.
  uint64_t position_of(uint64_t epoch, uint64_t sample) const;

  // log2(number of orders this kind can produce for this count) / log2(sample_count!), as if keys were
  // unlimited: 0 for sequential, 1 for full. Exact up to lgamma's rounding; 0 for fewer than 2 samples.
  double entropy() const;
  // The same, capped by the 64 bits of the seed.
  double entropy_of_seed() const;

 private:
  explicit Order(OrderOptions options);
  OrderOptions options_;
};

}  // namespace forebay::dataset
