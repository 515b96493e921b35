#include "loader/flow.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace forebay::loader {
namespace {

constexpr size_t kBadRecordsKept = 100;
constexpr int64_t kStallCheckNs = 1'000'000'000;

}  // namespace

Flow::Flow(const EngineOptions& options, BufferPool& buffers, std::atomic<uint64_t>& value_bytes)
    : options_(options) {
  const uint64_t count = options.prefetch_batches + 1 + options.extra_batches;
  for (uint64_t i = 0; i < count; ++i) {
    all_.push_back(std::make_unique<BatchState>());
    if (options.fields)
      all_.back()->rows = std::make_unique<FieldRows>(options.fields->schema, buffers, value_bytes);
    free_.push_back(all_.back().get());
  }
}

void Flow::begin(const EpochRequest& request) {
  bool goes_on = false;
  {
    base::MutexLock lock(mutex_);
    goes_on = go_on_with(request);
  }
  if (!goes_on) {
    abandon();
    base::MutexLock lock(mutex_);
    issued_serial_ = ++serial_;
    request_ = request;
    waited_ns_ = 0;
  }
  work_.notify_all();
}

bool Flow::go_on_with(const EpochRequest& request) {
  if (announced_ != request || !is_present_drained() || !is_present_issued()) return false;
  announced_.reset();
  ++serial_;
  if (issued_serial_ == serial_) return true;
  issued_serial_ = serial_;
  request_ = request;
  return true;
}

void Flow::announce(const EpochRequest& request) {
  {
    base::MutexLock lock(mutex_);
    announced_ = request;
  }
  work_.notify_all();
}

// Stops issuing and waits for what is under way: reads write into its memory.
void Flow::abandon() {
  for (;;) {
    BatchState* batch = nullptr;
    {
      base::MutexLock lock(mutex_);
      announced_.reset();
      request_.end_step = request_.next_step;
      const auto found = std::find_if(outstanding_.begin(), outstanding_.end(),
                                      [](const BatchState* b) { return b->is_ready; });
      if (found != outstanding_.end()) {
        batch = *found;
        outstanding_.erase(found);
        --ready_count_;
      } else if (is_drained() || first_error_ || stop_.stop_requested()) {
        return;  // next() says so again
      } else {
        ready_.wait_for(mutex_, stop_.get_token(), std::chrono::nanoseconds(kStallCheckNs),
                        [&]() FB_REQUIRES(mutex_) {
                          return first_error_.has_value() || ready_count_ > 0 || is_drained();
                        });
        continue;
      }
    }
    recycle(batch);
  }
}

bool Flow::is_present_drained() const {
  if (is_preparing_ && issued_serial_ == serial_) return false;
  return outstanding_.empty() || outstanding_.front()->serial != serial_;
}

BatchState* Flow::find_ready(bool as_ready) const {
  for (BatchState* batch : outstanding_) {
    if (batch->serial != serial_) return nullptr;
    if (batch->is_ready) return batch;
    if (!as_ready) return nullptr;
  }
  return nullptr;
}

Result<BatchState*> Flow::wait_ready(bool as_ready, int64_t stall_limit_ns,
                                     const std::function<std::string(uint64_t)>& path_of,
                                     std::stop_token stop) {
  const int64_t start = base::monotonic_clock().now_ns();
  base::MutexLock lock(mutex_);
  waits_since_ns_ = start;
  for (;;) {
    if (first_error_) return Error(*first_error_);
    if (BatchState* batch = find_ready(as_ready)) {
      outstanding_.erase(std::find(outstanding_.begin(), outstanding_.end(), batch));
      --ready_count_;
      if (Status allowed = count_bad(*batch); !allowed.ok()) {
        first_error_ = std::move(allowed).error();
        return Error(*first_error_);
      }
      ++batches_;
      samples_ += batch->good.size();
      payload_bytes_ += batch->payload_bytes;
      return batch;
    }
    if (is_present_drained() && is_present_issued()) return static_cast<BatchState*>(nullptr);
    if (is_drained() && free_.empty())
      return fail(ErrorCode::kResourceExhausted,
                  "all {} batches are held by the caller: give one back first", all_.size());
    const int64_t waited_ns = base::monotonic_clock().now_ns() - start;
    if (stop.stop_requested() || stop_.stop_requested()) {
      waited_ns_ += waited_ns;  // who waits in short turns is as stalled as who waits in one
      return fail(ErrorCode::kCancelled, "stopped");
    }
    if (waited_ns_ + waited_ns > stall_limit_ns)
      return fail(ErrorCode::kIo, "no batch for {} s: {}", stall_limit_ns / 1'000'000'000,
                  describe_stall(path_of));
    ready_.wait_for(mutex_, stop, std::chrono::nanoseconds(kStallCheckNs),
                    [&]() FB_REQUIRES(mutex_) {
                      return first_error_.has_value() || stop_.stop_requested() ||
                             find_ready(as_ready) != nullptr;
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
  if (batch->rows) batch->rows->reset(0);
  {
    base::MutexLock lock(mutex_);
    free_.push_back(batch);
  }
  work_.notify_all();
}

bool Flow::can_start(bool needs_reads) const {
  const bool has_work = has_step() || (announced_ && issued_serial_ == serial_);
  if (!has_work || free_.empty()) return false;
  if (free_.size() > options_.extra_batches) return true;
  return needs_reads && ready_count_ < options_.prefetch_batches;
}

// Slots are prepared outside the lock: a large batch takes milliseconds to look up.
BatchState* Flow::start_batch(bool needs_reads,
                              const std::function<void(BatchState&, const Stripe&)>& prepare) {
  BatchState* batch = nullptr;
  Stripe stripe;
  {
    base::MutexLock lock(mutex_);
    if (!can_start(needs_reads)) return nullptr;
    if (!has_step()) {
      ++issued_serial_;
      request_ = *announced_;
      if (!has_step()) return nullptr;  // an epoch without steps
    }
    batch = free_.back();
    free_.pop_back();
    batch->serial = issued_serial_;
    batch->epoch = request_.epoch;
    batch->step = request_.next_step++;
    stripe = request_.stripe;
    is_preparing_ = true;
  }
  prepare(*batch, stripe);
  const bool is_empty = batch->slots.empty();  // padding only
  if (is_empty) batch->complete(options_);
  {
    base::MutexLock lock(mutex_);
    outstanding_.push_back(batch);
    is_preparing_ = false;
    if (is_empty) {
      batch->is_ready = true;
      ++ready_count_;
    }
  }
  if (is_empty) ready_.notify_all();
  return batch;
}

bool Flow::wait_for_work(const std::atomic<bool>* window_is_full, std::stop_token stop) {
  base::MutexLock lock(mutex_);
  return work_.wait(mutex_, stop, [&]() FB_REQUIRES(mutex_) {
    return window_is_full != nullptr ? !window_is_full->load() : can_start(true);
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
  ended_samples_.fetch_add(samples, std::memory_order_relaxed);
  if (batch->remaining.fetch_sub(samples, std::memory_order_acq_rel) != samples) return;
  batch->complete(options_);
  {
    base::MutexLock lock(mutex_);
    batch->is_ready = true;
    ++ready_count_;
  }
  ready_.notify_all();
}

void Flow::record_bad(BatchState& batch, uint64_t sample, std::string_view path,
                      const Error& error) {
  // A machine that has run out of something, or a wrong request, is no property of the record.
  const bool is_data = error.code == ErrorCode::kCorruption || error.code == ErrorCode::kIo ||
                       error.code == ErrorCode::kNotFound || error.code == ErrorCode::kUnsupported;
  {
    base::MutexLock lock(mutex_);
    BadRecord bad{sample, std::string(path), error.message};
    if (options_.on_error != OnError::kRaise && is_data) {
      batch.bad.push_back(std::move(bad));
      return;
    }
    if (!first_error_) {
      first_error_ = error;
      blamed_ = bad;
    }
    keep_bad(std::move(bad));
  }
  ready_.notify_all();
}

void Flow::keep_bad(BadRecord bad) {
  ++bad_count_;
  const auto is_known = [&](const BadRecord& known) { return known.sample == bad.sample; };
  if (std::any_of(bad_records_.begin(), bad_records_.end(), is_known)) return;
  if (bad_records_.size() < kBadRecordsKept) bad_records_.push_back(std::move(bad));
}

Status Flow::count_bad(BatchState& batch) {
  seen_ += batch.slots.size();
  if (batch.bad.empty()) return {};
  for (BadRecord& bad : batch.bad) {
    blamed_ = bad;
    keep_bad(std::move(bad));
    const uint64_t counted =
        options_.shared_bad_count ? options_.shared_bad_count->fetch_add(1) + 1 : bad_count_;
    if (counted > options_.errors_max)
      return fail(ErrorCode::kResourceExhausted, "more than {} bad records; the last: {}",
                  options_.errors_max, blamed_->cause);
  }
  const double share = static_cast<double>(bad_count_) / static_cast<double>(seen_);
  if (seen_ < kErrorShareSamples || share <= options_.errors_share_max) return {};
  return fail(ErrorCode::kResourceExhausted,
              "{} of {} records are bad, more than the {:.3g} % allowed; the last: {}", bad_count_,
              seen_, 100 * options_.errors_share_max, blamed_->cause);
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

void Flow::add_consumer_wait(const BatchState* batch, int64_t from_ns, int64_t to_ns) {
  // What was waited for the batch in turns that were stopped is explained with the last turn.
  int64_t before_ns = 0;
  if (batch != nullptr) {
    base::MutexLock lock(mutex_);
    before_ns = std::exchange(waited_ns_, 0);
  }
  const int64_t since_ns = from_ns - before_ns;
  const Batch::Wait wait = batch == nullptr
                               ? Batch::Wait()
                               : batch->explain_wait(since_ns, std::max(since_ns, batch->ready_ns));
  base::MutexLock lock(mutex_);
  waits_since_ns_ = 0;
  consumer_wait_ns_ += to_ns - from_ns;
  wait_fetch_ns_ += wait.fetch_ns;
  wait_decode_ns_ += wait.decode_ns;
}

Flow::Progress Flow::progress(int64_t now_ns) const {
  base::MutexLock lock(mutex_);
  const int64_t present = waits_since_ns_ == 0 ? 0 : std::max<int64_t>(0, now_ns - waits_since_ns_);
  return {ended_samples_.load(std::memory_order_relaxed), consumer_wait_ns_ + present};
}

void Flow::copy_stats(EngineStats& stats) const {
  base::MutexLock lock(mutex_);
  stats.samples = samples_;
  stats.batches = batches_;
  stats.payload_bytes = payload_bytes_;
  stats.consumer_wait_ns = consumer_wait_ns_;
  stats.wait_fetch_ns = wait_fetch_ns_;
  stats.wait_decode_ns = wait_decode_ns_;
  stats.bad_count = bad_count_;
  stats.bad_records = bad_records_;
  stats.blamed = blamed_;
}

}  // namespace forebay::loader
