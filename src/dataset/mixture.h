// An epoch drawn from several data sets in stated proportions: a pure function of (seed, epoch,
// position).
//
//   epoch 0:  A B A A B A ...   source by source evenly spread, exactly quota() of each
//   source A: permutation 0 | permutation 1 | ...   its own epochs, drawn from end to end
//
// A source drawn more often than once per epoch goes on into its next permutation; of one drawn
// less, the next epoch visits the rest. Immutable and free of memory per sample; safe to use from
// any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataset/order.h"
#include "dataset/sample_stream.h"
#include "forebay/result.h"

namespace forebay::dataset {

struct MixtureSource {
  Order order;
  double weight = 0;  // share of an epoch, against the sum of all; 0 for every source = by size
};

struct MixtureOptions {
  std::vector<MixtureSource> sources{};
  uint64_t epoch_samples = 0;  // 0 = the samples of all sources
  uint64_t seed = 0;           // where in its turn each source begins
};

class Mixture final : public SampleStream {
 public:
  // kInvalidArgument without sources, for an empty one, weights that are negative or given to some
  // sources only, or more than 2^62 samples.
  static Result<Mixture> make(MixtureOptions options);

  uint64_t sample_count() const override { return root_count_; }
  // Samples drawn from a source in each epoch: by the largest remainder, so that they add up.
  uint64_t quota(size_t source) const { return sources_[source].quota; }
  size_t source_count() const { return sources_.size(); }

  // Samples are numbered through: those of the second source follow the last of the first.
  void samples_at(uint64_t epoch, uint64_t first, std::span<uint64_t> out) const override;
  // The first position of `epoch` that has this sample; nothing when the epoch does without it.
  std::optional<uint64_t> position_of(uint64_t epoch, uint64_t sample) const;

  // Of the orders of the draws, with the turns of the sources fixed; counted pro rata for sources
  // drawn in part.
  double entropy() const override;
  bool is_mixed() const override;
  uint64_t fingerprint() const override;

 private:
  struct Source {
    Order order;
    uint64_t quota = 0;
    uint64_t first_sample = 0;
  };
  // Two neighbouring groups of sources that take turns; leaves are sources.
  struct Node {
    uint64_t left = 0, count = 0;  // draws of the left group, and of both
    uint32_t left_child = 0, right_child = 0;
    bool is_left_leaf = false, is_right_leaf = false;
    uint32_t parent = 0;
    bool is_left_of_parent = false;
  };
  struct Draw {
    uint32_t source = 0;
    uint64_t number = 0;  // among the draws of that source in this epoch
  };
  Mixture() = default;
  void build(uint32_t first, uint32_t end, uint32_t parent, bool is_left);
  uint64_t phase(uint64_t epoch, uint32_t node) const;
  Draw draw_at(std::span<const uint64_t> phases, uint64_t position) const;
  std::vector<uint64_t> phases_of(uint64_t epoch) const;
  void draw_samples(uint32_t source, uint64_t epoch, uint64_t first, std::span<uint64_t> out) const;

  std::vector<Source> sources_;
  std::vector<Node> nodes_;  // none for a single source
  struct Leaf {
    uint32_t node = 0;
    bool is_left = false;
  };
  std::vector<Leaf> leaves_;  // by source
  uint64_t root_count_ = 0, seed_ = 0;
};

}  // namespace forebay::dataset
