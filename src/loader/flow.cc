#include "loader/flow.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace forebay::loader {
namespace {

constexpr size_t kBadRecordsKept = 100;
constexpr int64_t kStallCheckNs = 1'000'000'000;

}  // namespace

Flow::Flow(const EngineOptions& options, uint64_t batch_count) : options_(options) {
  for (uint64_t i = 0; i < batch_count; ++i) {
    all_.push_back(std::make_unique<BatchState>());
    free_.push_back(all_.back().get());
  }
}

void Flow::begin(EpochRequest request) {
  {
    base::MutexLock lock(mutex_);
    request_ = request;
  }
  work_.notify_all();
}

void Flow::abandon() {
  base::MutexLock lock(mutex_);
  request_.end_step = request_.next_step;
}

bool Flow::has_outstanding() const {
  base::MutexLock lock(mutex_);
  return !is_drained();
}

BatchState* Flow::take_ready(bool as_ready) {
  for (auto it = outstanding_.begin(); it != outstanding_.end(); ++it) {
    if ((*it)->is_ready) {
      BatchState* batch = *it;
      outstanding_.erase(it);
      return batch;
    }
    if (!as_ready) return nullptr;
  }
  return nullptr;
}

Result<BatchState*> Flow::wait_ready(bool as_ready, int64_t stall_limit_ns,
                                     const std::function<std::string(uint64_t)>& path_of,
                                     std::stop_token stop) {
  const int64_t start = base::monotonic_clock().now_ns();
  base::MutexLock lock(mutex_);
  for (;;) {
    if (first_error_) return Error(*first_error_);
    if (BatchState* batch = take_ready(as_ready)) {
      ++batches_;
      samples_ += batch->good.size();
      payload_bytes_ += batch->payload_bytes;
      return batch;
    }
    if (is_drained() && request_.next_step >= request_.end_step)
      return static_cast<BatchState*>(nullptr);
    if (is_drained() && free_.empty())
      return fail(ErrorCode::kResourceExhausted,
                  "all {} batches are held by the caller: give one back first", all_.size());
    if (stop.stop_requested() || stop_.stop_requested())
      return fail(ErrorCode::kCancelled, "stopped");
    if (base::monotonic_clock().now_ns() - start > stall_limit_ns)
      return fail(ErrorCode::kIo, "no batch for {} s: {}", stall_limit_ns / 1'000'000'000,
                  describe_stall(path_of));
    ready_.wait_for(mutex_, stop, std::chrono::nanoseconds(kStallCheckNs),
                    [&]() FB_REQUIRES(mutex_) {
                      return first_error_.has_value() || stop_.stop_requested() ||
                             (!outstanding_.empty() &&
                              std::any_of(outstanding_.begin(), outstanding_.end(),
                                          [](const BatchState* b) { return b->is_ready; }) &&
                              (as_ready || outstanding_.front()->is_ready));
                    });
  }
}

std::string Flow::describe_stall(const std::function<std::string(uint64_t)>& path_of) const {
  if (outstanding_.empty()) return "nothing was issued";
  const BatchState* batch = outstanding_.front();
  std::string text =
      fmt::format("step {} waits for {} of its {} samples", batch->step,
                  batch->remaining.load(std::memory_order_relaxed), batch->slots.size());
  for (const SlotState& slot : batch->slots) {
    const Stage stage = slot.load_stage();
    if (stage == Stage::kDone) continue;
    const char* doing = stage == Stage::kWaiting ? "not yet issued"
                        : stage == Stage::kFetch ? "being read"
                                                 : "being decoded";
    return fmt::format("{}, first {} ({})", text, path_of(slot.wanted), doing);
  }
  return text;
}

void Flow::recycle(BatchState* batch) {
  // Buffers go back before the batch does, so that the bound holds when it is refilled.
  batch->slots.clear();
  batch->good.clear();
  {
    base::MutexLock lock(mutex_);
    free_.push_back(batch);
  }
  work_.notify_all();
}

void Flow::discard(BatchState* batch) {
  {
    base::MutexLock lock(mutex_);
    --batches_;
    samples_ -= batch->good.size();
    payload_bytes_ -= batch->payload_bytes;
  }
  recycle(batch);
}

// Slots are prepared outside the lock: a large batch takes milliseconds to look up.
BatchState* Flow::start_batch(const std::function<void(BatchState&, const Stripe&)>& prepare) {
  BatchState* batch = nullptr;
  Stripe stripe;
  {
    base::MutexLock lock(mutex_);
    if (!can_start()) return nullptr;
    batch = free_.back();
    free_.pop_back();
    batch->epoch = request_.epoch;
    batch->step = request_.next_step++;
    stripe = request_.stripe;
    is_preparing_ = true;
  }
  prepare(*batch, stripe);
  base::MutexLock lock(mutex_);
  outstanding_.push_back(batch);
  is_preparing_ = false;
  return batch;
}

bool Flow::wait_for_work(const std::atomic<bool>* window_is_full, std::stop_token stop) {
  base::MutexLock lock(mutex_);
  return work_.wait(mutex_, stop, [&]() FB_REQUIRES(mutex_) {
    return window_is_full != nullptr ? !window_is_full->load() : can_start();
  });
}

void Flow::poke() {
  { base::MutexLock lock(mutex_); }  // a waiter is either before its check or already waiting
  work_.notify_all();
}

void Flow::finish(BatchState* batch, uint32_t slot, int64_t done_ns) {
  batch->slots[slot].done_ns = done_ns;
  batch->slots[slot].set_stage(Stage::kDone);
  count_down(batch, 1);
}

void Flow::finish(std::span<const Target> targets, int64_t done_ns) {
  size_t first = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    SlotState& state = targets[i].batch->slots[targets[i].slot];
    state.done_ns = done_ns;
    state.set_stage(Stage::kDone);
    if (i + 1 < targets.size() && targets[i + 1].batch == targets[i].batch) continue;
    count_down(targets[i].batch, static_cast<uint32_t>(i + 1 - first));
    first = i + 1;
  }
}

void Flow::count_down(BatchState* batch, uint32_t samples) {
  if (batch->remaining.fetch_sub(samples, std::memory_order_acq_rel) != samples) return;
  batch->complete(options_.on_error);
  {
    base::MutexLock lock(mutex_);
    batch->is_ready = true;
  }
  ready_.notify_all();
}

void Flow::record_bad(uint64_t sample, std::string_view path, const Error& error) {
  base::MutexLock lock(mutex_);
  ++bad_count_;
  const uint64_t counted =
      options_.shared_bad_count ? options_.shared_bad_count->fetch_add(1) + 1 : bad_count_;
  if (bad_records_.size() < kBadRecordsKept)
    bad_records_.push_back({sample, std::string(path), error.message});
  // A machine that has run out of something, or a wrong request, is no property of the record.
  const bool is_data = error.code == ErrorCode::kCorruption || error.code == ErrorCode::kIo ||
                       error.code == ErrorCode::kNotFound || error.code == ErrorCode::kUnsupported;
  if (options_.on_error != OnError::kRaise && is_data && counted <= options_.errors_max) return;
  if (first_error_) return;
  first_error_ = error;
  if (options_.on_error != OnError::kRaise && is_data)
    first_error_ = fail(ErrorCode::kResourceExhausted, "more than {} bad records; the last: {}",
                        options_.errors_max, error.message);
  ready_.notify_all();
}

void Flow::fail_all(Error error) {
  base::MutexLock lock(mutex_);
  if (!first_error_) first_error_ = std::move(error);
  ready_.notify_all();
}

std::optional<Error> Flow::first_error() const {
  base::MutexLock lock(mutex_);
  return first_error_;
}

void Flow::add_consumer_wait(int64_t ns) {
  base::MutexLock lock(mutex_);
  consumer_wait_ns_ += ns;
}

void Flow::copy_stats(EngineStats& stats) const {
  base::MutexLock lock(mutex_);
  stats.samples = samples_;
  stats.batches = batches_;
  stats.payload_bytes = payload_bytes_;
  stats.consumer_wait_ns = consumer_wait_ns_;
  stats.bad_count = bad_count_;
  stats.bad_records = bad_records_;
}

}  // namespace forebay::loader
