// The samples of an epoch, one after the other: an Order over one data set, a Mixture of several.
//
// Implementations are immutable, need no memory per sample and may be used from any thread. The
// stream is canonical: it does not depend on how many ranks consume it.
#pragma once

#include <cstdint>
#include <span>

namespace forebay::dataset {

class SampleStream {
 public:
  virtual ~SampleStream() = default;

  // Positions of an epoch, the same for every epoch. A mixture may give a sample several times in
  // one, or not at all.
  virtual uint64_t sample_count() const = 0;
  // The samples (as Catalog numbers them) at the positions from `first` on, all below
  // sample_count().
  virtual void samples_at(uint64_t epoch, uint64_t first, std::span<uint64_t> out) const = 0;
  // log2(orders it can produce) / log2(all orders), as if keys were unlimited: 0 for one order
  // only, 1 when any is possible.
  virtual double entropy() const = 0;
  // Samples that lie together in a file may come far apart from each other.
  virtual bool is_mixed() const = 0;
  // Changes with whatever changes samples_at(): kind, seed, counts, weights.
  virtual uint64_t fingerprint() const = 0;

 protected:
  SampleStream() = default;
  SampleStream(const SampleStream&) = default;
  SampleStream(SampleStream&&) = default;
  SampleStream& operator=(const SampleStream&) = default;
  SampleStream& operator=(SampleStream&&) = default;
};

}  // namespace forebay::dataset
