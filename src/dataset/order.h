// The order in which samples are visited: a pure function of (kind, count, seed, epoch).
//
// Immutable and free of memory per sample; safe to use from any thread. The stream of positions is
// canonical: it does not depend on how many ranks consume it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "dataset/permutation.h"
#include "dataset/sample_stream.h"
#include "forebay/result.h"

namespace forebay::dataset {

enum class OrderKind {
  kSequential,  // 0, 1, 2, ...
  kFull,        // a permutation of all samples
  kWindowed,    // shards permuted, then the samples of each window of shards permuted
  kResident,    // kWindowed with the window that memory holds: only resident samples are drawn
};
std::string_view order_kind_name(OrderKind kind);

struct OrderOptions {
  OrderKind kind = OrderKind::kSequential;
  uint64_t sample_count = 0;
  uint64_t seed = 0;
  bool change_each_epoch = true;  // false: every epoch has epoch 0's order
  uint64_t shard_samples = 1;     // kWindowed: samples per shard; the last shard may be short
  uint64_t window_shards = 1;     // kWindowed: shards that are mixed with each other
  uint64_t resident_samples = 1;  // kResident: what memory holds, in samples; at least one shard
  bool shuffle_shards = true;     // kWindowed: false keeps the shards in order
  bool shuffle_within = true;     // kWindowed: false keeps each shard's samples in order
};

class Order final : public SampleStream {
 public:
  // kInvalidArgument for windows or shards of 0 samples.
  static Result<Order> make(OrderOptions options);

  uint64_t sample_count() const override { return options_.sample_count; }
  const OrderOptions& options() const { return options_; }

  // The sample at `position` of `epoch`; both below sample_count(). O(1) time expected and memory.
  uint64_t sample_at(uint64_t epoch, uint64_t position) const;
  // The samples at the positions from `first` on: the same, several times as fast for many.
  void samples_at(uint64_t epoch, uint64_t first, std::span<uint64_t> out) const override;
  // Its inverse: position_of(e, sample_at(e, p)) == p.
  uint64_t position_of(uint64_t epoch, uint64_t sample) const;

  // log2(number of orders this kind can produce for this count) / log2(sample_count!), as if keys
  // were unlimited: 0 for sequential, 1 for full. Exact up to lgamma's rounding; 0 for fewer than 2
  // samples.
  double entropy() const override;
  // The same, capped by the 64 bits of the seed.
  double entropy_of_seed() const;
  bool is_mixed() const override {
    return options_.kind != OrderKind::kSequential && options_.shuffle_within;
  }
  uint64_t fingerprint() const override;

 private:
  explicit Order(OrderOptions options);

  uint64_t key(uint64_t epoch, uint64_t stream) const;
  const Permutation& window(uint64_t index, bool holds_short_shard) const;
  // Where the short last shard falls among the permuted shards; shard_count_ when none is short.
  uint64_t short_shard_place(uint64_t shard_key) const;
  // What the windows of one epoch have in common.
  struct EpochWindows {
    uint64_t epoch = 0;
    uint64_t shard_key = 0, short_place = 0, short_window = 0;
  };
  struct Place {
    uint64_t shard_place = 0, offset = 0;  // offset: in the shard
  };
  EpochWindows windows_of(uint64_t epoch) const;
  // The window that holds `position`; what is left of `position` counts from its start.
  uint64_t find_window(const EpochWindows& of, uint64_t& position) const;
  Place place_at(const EpochWindows& of, uint64_t window_index, uint64_t window_key,
                 uint64_t offset) const;
  uint64_t windowed_sample_at(uint64_t epoch, uint64_t position) const;
  void windowed_samples_at(uint64_t epoch, uint64_t first, std::span<uint64_t> out) const;
  uint64_t windowed_position_of(uint64_t epoch, uint64_t sample) const;
  double log2_reachable() const;

  OrderOptions options_;
  Permutation all_;  // kFull
  // kWindowed, with sizes cut to what there is.
  uint64_t shard_samples_ = 1, shard_count_ = 0, window_shards_ = 1, last_window_ = 0;
  uint64_t shard_deficit_ = 0;  // samples that the last shard lacks
  Permutation shards_;
  Permutation windows_[2][2];  // [is the last window][holds the short shard]
};

}  // namespace forebay::dataset
