// What the issuer, the decode threads and the consumer share: the batches under way, the first
// error, the bad records and the figures. Private to the loader.
//
// Safe to use from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "forebay/result.h"
#include "loader/batch_state.h"
#include "loader/options.h"

namespace forebay::loader {

// Steps of one epoch that the issuer still has to start.
struct EpochRequest {
  uint64_t epoch = 0;
  uint64_t next_step = 0;
  uint64_t end_step = 0;
  Stripe stripe;
};

class Flow {
 public:
  Flow(const EngineOptions& options, uint64_t batch_count);

  // --- consumer ---
  void begin(EpochRequest request);  // only when no batch is outstanding
  // Stops issuing; batches already under way still finish.
  void abandon();
  bool has_outstanding() const;
  // The next batch in step order (or, as_ready, any that is ready). Null at the epoch's end.
  // After `stall_limit_ns` without one, an error names the samples that are late by `path_of`.
  Result<BatchState*> wait_ready(bool as_ready, int64_t stall_limit_ns,
                                 const std::function<std::string(uint64_t sample)>& path_of,
                                 std::stop_token stop);
  void recycle(BatchState* batch);
  // recycle() of a batch that wait_ready() gave but nobody saw: it leaves the figures again.
  void discard(BatchState* batch);

  // --- issuer ---
  // A free batch for the next step, or null when there is no step left or no batch free. `prepare`
  // sets its slots while nobody else sees them.
  BatchState* start_batch(const std::function<void(BatchState&, const Stripe&)>& prepare);
  // Waits until start_batch() can succeed or, given a flag, until that is false. False when
  // stopped.
  bool wait_for_work(const std::atomic<bool>* window_is_full, std::stop_token stop);
  // The flag given to wait_for_work may have changed.
  void poke();

  // --- whoever finishes a sample ---
  // The caller filled the slot before.
  void finish(BatchState* batch, uint32_t slot, int64_t done_ns);
  // The same for many at once; cheap when neighbours belong to one batch.
  void finish(std::span<const Target> targets, int64_t done_ns);
  // Applies the error policy; the slot stays not good. The caller then calls finish().
  void record_bad(uint64_t sample, std::string_view path, const Error& error);
  void fail_all(Error error);

  std::stop_token stop_token() const { return stop_.get_token(); }
  void request_stop() { stop_.request_stop(); }

  std::optional<Error> first_error() const;
  void add_consumer_wait(int64_t ns);
  void copy_stats(EngineStats& stats) const;

 private:
  // Whether a step is left and a batch is free to hold it.
  bool can_start() const FB_REQUIRES(mutex_) {
    return request_.next_step < request_.end_step && !free_.empty();
  }
  // No batch is under way, nor about to be.
  bool is_drained() const FB_REQUIRES(mutex_) { return outstanding_.empty() && !is_preparing_; }
  void count_down(BatchState* batch, uint32_t samples);
  BatchState* take_ready(bool as_ready) FB_REQUIRES(mutex_);
  std::string describe_stall(const std::function<std::string(uint64_t sample)>& path_of) const
      FB_REQUIRES(mutex_);

  const EngineOptions& options_;
  std::stop_source stop_;
  mutable base::Mutex mutex_;
  base::CondVar ready_;
  base::CondVar work_;
  std::vector<std::unique_ptr<BatchState>> all_;
  std::vector<BatchState*> free_ FB_GUARDED_BY(mutex_);
  std::deque<BatchState*> outstanding_ FB_GUARDED_BY(mutex_);  // in step order
  bool is_preparing_ FB_GUARDED_BY(mutex_) = false;            // the issuer sets up a batch's slots
  EpochRequest request_ FB_GUARDED_BY(mutex_);
  std::optional<Error> first_error_ FB_GUARDED_BY(mutex_);
  uint64_t bad_count_ FB_GUARDED_BY(mutex_) = 0;
  std::vector<BadRecord> bad_records_ FB_GUARDED_BY(mutex_);
  uint64_t samples_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t batches_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t payload_bytes_ FB_GUARDED_BY(mutex_) = 0;
  int64_t consumer_wait_ns_ FB_GUARDED_BY(mutex_) = 0;
};

}  // namespace forebay::loader
