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
#include "loader/buffer_pool.h"
#include "loader/options.h"

namespace forebay::loader {

// Steps of one epoch that the issuer still has to start.
struct EpochRequest {
  uint64_t epoch = 0;
  uint64_t next_step = 0;
  uint64_t end_step = 0;
  Stripe stripe;
  bool operator==(const EpochRequest&) const = default;
};

class Flow {
 public:
  // `value_bytes` counts the fields' values that are not stacked.
  Flow(const EngineOptions& options, BufferPool& buffers, std::atomic<uint64_t>& value_bytes);

  // --- consumer ---
  // Steps to issue from now on. What was announced and is under way goes on; what is left of
  // anything else is abandoned first.
  void begin(const EpochRequest& request);
  // Steps to issue once those of the present request are.
  void announce(const EpochRequest& request);
  // The next batch of the present request in step order (or, as_ready, any that is ready). Null at
  // its end. After `stall_limit_ns` without one, an error names the samples that are late by
  // `path_of`.
  Result<BatchState*> wait_ready(bool as_ready, int64_t stall_limit_ns,
                                 const std::function<std::string(uint64_t sample)>& path_of,
                                 std::stop_token stop);
  void recycle(BatchState* batch);

  // --- issuer ---
  // A free batch for the next step, or null when there is no step left or no batch free. `prepare`
  // sets its slots while nobody else sees them. `needs_reads`: fewer reads are in flight than the
  // store should have, which is what extra batches are for.
  BatchState* start_batch(bool needs_reads,
                          const std::function<void(BatchState&, const Stripe&)>& prepare);
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
  // Applies the error policy; the slot stays not good. The caller then calls finish(). A record
  // that may be bad counts once its batch is delivered: what is read ahead may be read again.
  void record_bad(BatchState& batch, uint64_t sample, std::string_view path, const Error& error);
  void fail_all(Error error);

  std::stop_token stop_token() const { return stop_.get_token(); }
  void request_stop() { stop_.request_stop(); }

  std::optional<Error> first_error() const;
  // The consumer waited for `batch` (null: for nothing that came) since `from_ns`.
  void add_consumer_wait(const BatchState* batch, int64_t from_ns, int64_t to_ns);
  void copy_stats(EngineStats& stats) const;

  // For a tuner: samples that have ended so far, and how long the consumer has waited, its present
  // wait included.
  struct Progress {
    uint64_t samples = 0;
    int64_t wait_ns = 0;
  };
  Progress progress(int64_t now_ns) const;

 private:
  // Whether a step is left and a batch is free to hold it.
  bool can_start(bool needs_reads) const FB_REQUIRES(mutex_);
  bool has_step() const FB_REQUIRES(mutex_) { return request_.next_step < request_.end_step; }
  // No batch is under way, nor about to be.
  bool is_drained() const FB_REQUIRES(mutex_) { return outstanding_.empty() && !is_preparing_; }
  // The same for batches that the consumer is to get before the next begin().
  bool is_present_drained() const FB_REQUIRES(mutex_);
  bool is_present_issued() const FB_REQUIRES(mutex_) {
    return issued_serial_ != serial_ || !has_step();
  }
  // Goes over to what was announced, if it was `request`.
  bool go_on_with(const EpochRequest& request) FB_REQUIRES(mutex_);
  void abandon();
  // Counts the bad records of a batch that is delivered against the allowance.
  Status count_bad(BatchState& batch) FB_REQUIRES(mutex_);
  void keep_bad(BadRecord bad) FB_REQUIRES(mutex_);
  void count_down(BatchState* batch, uint32_t samples);
  BatchState* find_ready(bool as_ready) const FB_REQUIRES(mutex_);
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
  // Of the request that is being issued, and of that whose batches the consumer gets.
  uint64_t issued_serial_ FB_GUARDED_BY(mutex_) = 0, serial_ FB_GUARDED_BY(mutex_) = 0;
  EpochRequest request_ FB_GUARDED_BY(mutex_);                   // being issued
  std::optional<EpochRequest> announced_ FB_GUARDED_BY(mutex_);  // to follow the consumer's
  uint64_t ready_count_ FB_GUARDED_BY(mutex_) = 0;
  std::optional<Error> first_error_ FB_GUARDED_BY(mutex_);
  uint64_t seen_ FB_GUARDED_BY(mutex_) = 0;  // samples of delivered batches, bad ones included
  uint64_t bad_count_ FB_GUARDED_BY(mutex_) = 0;
  std::vector<BadRecord> bad_records_ FB_GUARDED_BY(mutex_);
  std::optional<BadRecord> blamed_ FB_GUARDED_BY(mutex_);  // as EngineStats has it
  uint64_t samples_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t batches_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t payload_bytes_ FB_GUARDED_BY(mutex_) = 0;
  int64_t consumer_wait_ns_ FB_GUARDED_BY(mutex_) = 0;
  int64_t waited_ns_ FB_GUARDED_BY(mutex_) = 0;  // in vain, by waits that were stopped
  int64_t wait_fetch_ns_ FB_GUARDED_BY(mutex_) = 0, wait_decode_ns_ FB_GUARDED_BY(mutex_) = 0;
  int64_t waits_since_ns_ FB_GUARDED_BY(mutex_) = 0;  // 0 = the consumer does not
  std::atomic<uint64_t> ended_samples_{0};            // relaxed: a figure
};

}  // namespace forebay::loader
