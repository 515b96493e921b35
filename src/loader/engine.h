// The engine: turns an order into batches. Reads run in the store, decoding in a pool, and one
// thread issues work within the bounds.
//
//   SampleStream --positions--> issue --extents--> ReadQueue --bytes--> decode pool --> batch -->
//   next()
//
// One consumer thread. Store, Index, Catalog, SampleStream and Recorder must outlive the engine;
// batches must not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>

#include "dataset/catalog.h"
#include "dataset/index.h"
#include "dataset/order.h"
#include "forebay/result.h"
#include "loader/buffer_pool.h"
#include "loader/options.h"
#include "storage/store.h"
#include "trace/histogram.h"

namespace forebay::trace {
class Recorder;
}

namespace forebay::loader {

struct LoadedSample {
  uint64_t sample = 0;
  uint32_t file = 0;
  uint64_t payload_bytes = 0;
  bool is_replaced = false;  // another sample of the batch stands in for a bad one
  // With keep_samples: the decoded sample; `owner` keeps it alive beyond the batch.
  ops::Sample data;
  std::shared_ptr<const void> owner;
};

struct BatchState;
class FieldRows;

// Samples of one step. Gives its slot back to the engine when it goes.
class Batch {
 public:
  Batch(Batch&& other) noexcept;
  Batch& operator=(Batch&& other) noexcept;
  ~Batch();

  uint64_t step() const;
  std::span<const LoadedSample> samples()
      const;  // good ones; fewer than the batch size after skips
  uint64_t skipped() const;
  uint64_t payload_bytes() const;
  uint64_t file_bytes() const;
  int64_t ready_ns() const;  // monotonic: when the last sample was there
  // Null without EngineOptions::fields. Rows beyond samples() are zeros (Tail::kPad).
  const FieldRows* fields() const;

  struct Wait {
    int64_t fetch_ns = 0, decode_ns = 0;
  };
  // Splits the wait [from_ns, to_ns) for this batch by what its last sample was doing meanwhile.
  Wait explain_wait(int64_t from_ns, int64_t to_ns) const;

 private:
  friend class Engine;
  Batch(void* engine, BatchState* state) : engine_(engine), state_(state) {}
  void* engine_;
  BatchState* state_;
};

class Engine {
 public:
  // kInvalidArgument when the data set has no samples or options are out of range.
  static Result<std::unique_ptr<Engine>> open(storage::Store& store, const dataset::Index& index,
                                              const dataset::SampleStream& stream,
                                              EngineOptions options, trace::Recorder* recorder);
  // Several data sets as one; of `options`, the catalog's sources have their own `format`.
  static Result<std::unique_ptr<Engine>> open(storage::Store& store,
                                              std::shared_ptr<const dataset::Catalog> catalog,
                                              const dataset::SampleStream& stream,
                                              EngineOptions options, trace::Recorder* recorder);
  ~Engine();  // abandons what is in flight

  const Stripe& stripe() const;

  // Starts reading up to `steps` batches of `epoch` from `first_position` of the canonical order
  // on; what is left of an earlier epoch is abandoned. Steps count from 0 there, and steps beyond
  // the epoch's end do not exist. With a first_position that is a whole number of steps of any
  // earlier world size and batch size, the rest of that epoch is exactly what remains.
  // What was announced and follows the end of the epoch before goes on instead.
  void begin_epoch(uint64_t epoch, uint64_t first_position, uint64_t steps);
  // The epoch that will begin next: its reads start once those of the present one have been issued.
  void announce_epoch(uint64_t epoch, uint64_t first_position, uint64_t steps);

  // The next batch, nothing at the epoch's end, or the error that ended the flow (for good: later
  // calls return it again). kCancelled on stop; kResourceExhausted when the caller still holds
  // every batch there is (prefetch_batches + 1).
  Result<std::optional<Batch>> next(std::stop_token stop);

  bool has_failed() const;  // an error has ended the flow

  EngineStats stats() const;  // since the engine was opened

  // Time of each read since the last call: start of work to last byte, in ns.
  trace::Histogram take_read_times();

 private:
  class Impl;
  friend class Batch;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::loader
