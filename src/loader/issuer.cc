#include "loader/issuer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "sys/thread.h"

namespace forebay::loader {
namespace {

constexpr size_t kReapMax = 64;
constexpr size_t kSharedFilesMax = 64;
constexpr int kUnsupportedMax = 4;

}  // namespace

Issuer::Issuer(const dataset::Index& index, const dataset::Order& order,
               const EngineOptions& options, Flow& flow, BufferPool& buffers,
               std::unique_ptr<storage::ReadQueue> queue)
    : index_(index),
      order_(order),
      options_(options),
      flow_(flow),
      buffers_(buffers),
      queue_(std::move(queue)),
      reader_(index.format().make_reader(options.format)) {}

Issuer::~Issuer() {
  stop_thread();
  queue_.reset();  // waits for reads in flight, which write into buffers that in_flight_ holds
}

Status Issuer::start(DecodePool& pool) {
  pool_ = &pool;
  thread_ = FB_TRY(sys::start_thread(options_.name + "-issue",
                                     [this](std::stop_token stop) { run(std::move(stop)); }));
  return {};
}

void Issuer::stop_thread() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  queue_->wake();
  thread_.join();
}

void Issuer::wake() {
  queue_->wake();
}

void Issuer::release(std::unique_ptr<Fetch> fetch) {
  window_bytes_.fetch_sub(fetch->window_bytes);
  fetch.reset();
  if (!is_window_full_.exchange(false)) return;
  queue_->wake();
  flow_.poke();
}

void Issuer::run(std::stop_token stop) {
  std::array<storage::Completion, kReapMax> done;
  while (!stop.stop_requested()) {
    issue(stop);
    if (in_flight_count_ == 0) {
      const bool waits_for_room = filling_ != nullptr || !again_.empty();
      // Either there is no step to start, or decode threads hold all the bytes the window allows.
      if (!flow_.wait_for_work(waits_for_room ? &is_window_full_ : nullptr, stop)) return;
      continue;
    }
    const size_t count = queue_->reap(done, stop);
    for (size_t i = 0; i < count; ++i) handle(done[i]);
  }
}

// Starts as many samples as free batches and the window allow.
void Issuer::issue(std::stop_token stop) {
  for (; !again_.empty() && window_has_room(again_.front()->extent.length); again_.pop_front())
    submit(std::move(again_.front()));
  while (!stop.stop_requested()) {
    if (filling_ == nullptr) {
      filling_ = flow_.start_batch(
          [this](BatchState& batch, const Stripe& stripe) { prepare(batch, stripe); });
      next_slot_ = 0;
      if (filling_ == nullptr) break;
    }
    while (next_slot_ < filling_->slots.size()) {
      const dataset::SampleLocation where = index_.locate(filling_->slots[next_slot_].wanted);
      if (!window_has_room(where.extent.length)) {
        if (open_) submit(std::move(open_));
        submit_ready();
        return;
      }
      add_target(filling_, next_slot_++, where);
    }
    filling_ = nullptr;
  }
  if (open_) submit(std::move(open_));
  submit_ready();
}

void Issuer::prepare(BatchState& batch, const Stripe& stripe) const {
  const uint64_t samples = stripe.batch_samples(batch.step, options_.rank);
  batch.reset(samples);
  for (uint64_t i = 0; i < samples; ++i) {
    const uint64_t position = stripe.position(batch.step, options_.rank, i);
    batch.slots[i].wanted = order_.sample_at(batch.epoch, position);
  }
}

bool Issuer::window_has_room(uint64_t bytes) {
  const auto has_room = [&] {
    const uint64_t held = window_bytes_.load();
    return held == 0 || held + bytes <= options_.window_bytes;
  };
  if (has_room()) return true;
  is_window_full_.store(true);  // before the second look, so that no release() is missed
  if (!has_room()) return false;
  is_window_full_.store(false);
  return true;
}

void Issuer::add_target(BatchState* batch, uint32_t slot, const dataset::SampleLocation& where) {
  const Target target{batch, slot, where.sample_in_file, where.extent};
  batch->slots[slot].wanted_file = where.file;
  if (where.access == formats::Access::kExtents && join_last(target, where.file)) return;
  if (where.access == formats::Access::kTogether && join_shared(target, where.file)) return;
  if (open_) submit(std::move(open_));
  open_fetch(target, where.file, where);
  if (where.access != formats::Access::kExtents) submit(std::move(open_));
}

// Neighbours in the same file become one read.
bool Issuer::join_last(const Target& target, uint32_t file) {
  if (!open_ || open_->file != file || open_->access != formats::Access::kExtents) return false;
  const uint64_t end = open_->extent.offset + open_->extent.length;
  if (target.extent.offset != end ||
      open_->extent.length + target.extent.length > options_.coalesce_bytes)
    return false;
  open_->extent.length += target.extent.length;
  open_->targets.push_back(target);
  return true;
}

// A file whose samples only come together is read once for all that are wanted near each other.
bool Issuer::join_shared(const Target& target, uint32_t file) {
  if (const auto found = loading_shared_.find(file); found != loading_shared_.end()) {
    found->second->targets.push_back(target);
    return true;
  }
  const auto at_hand = std::find_if(shared_.begin(), shared_.end(),
                                    [&](const SharedFile& s) { return s.file == file; });
  if (at_hand == shared_.end()) return false;
  auto fetch = std::make_unique<Fetch>();
  fetch->file = file;
  fetch->access = formats::Access::kTogether;
  fetch->extent = target.extent;
  fetch->targets.push_back(target);
  fetch->buffer = at_hand->buffer;
  fetch->submitted_ns = fetch->landed_ns = base::monotonic_clock().now_ns();
  SlotState& state = target.batch->slots[target.slot];
  state.submitted_ns = state.landed_ns = fetch->submitted_ns;
  state.set_stage(Stage::kDecode);
  std::rotate(shared_.begin(), at_hand, at_hand + 1);
  fetch->payload_bytes = at_hand->payload_bytes;
  if (fetch->buffer == nullptr && !options_.preprocess_ns)
    finish_without_decoding(*fetch);
  else
    pool_->push(std::move(fetch));
  return true;
}

void Issuer::open_fetch(const Target& target, uint32_t file, const dataset::SampleLocation& where) {
  open_ = std::make_unique<Fetch>();
  open_->file = file;
  open_->access = where.access;
  open_->extent = where.extent;
  open_->targets.push_back(target);
}

bool Issuer::needs_buffer(const Fetch& fetch) const {
  if (options_.keep_samples) return true;
  if (options_.payload == Payload::kBytes) return false;
  return fetch.must_keep || fetch.access == formats::Access::kExtents || !checks_exist_;
}

// Decides where the bytes go: nowhere, through a check in passing, or into a buffer.
bool Issuer::equip(Fetch& fetch) {
  if (!needs_buffer(fetch) && options_.payload == Payload::kDecode) {
    if (idle_checks_.empty()) {
      if (auto check = reader_->make_stream_check()) idle_checks_.push_back(std::move(check));
    }
    checks_exist_ = !idle_checks_.empty();
    if (checks_exist_) {
      fetch.check = std::move(idle_checks_.back());
      idle_checks_.pop_back();
      fetch.check->begin(index_.path(fetch.file), fetch.extent.length);
      return true;
    }
  }
  if (!needs_buffer(fetch)) return true;
  if (fetch.extent.length > options_.record_bytes_max) {
    fail_targets(
        fetch,
        fail(ErrorCode::kUnsupported, "{}: {} in one piece is more than memory allows ({})",
             index_.path(fetch.file), base::format_bytes(static_cast<double>(fetch.extent.length)),
             base::format_bytes(static_cast<double>(options_.record_bytes_max))));
    return false;
  }
  fetch.buffer = buffers_.acquire(fetch.extent.length);
  fetch.window_bytes = fetch.extent.length;
  window_bytes_.fetch_add(fetch.window_bytes);
  return true;
}

void Issuer::submit(std::unique_ptr<Fetch> fetch) {
  if (!equip(*fetch)) return;
  if (free_ids_.empty()) {
    free_ids_.push_back(static_cast<uint32_t>(in_flight_.size()));
    in_flight_.emplace_back();
  }
  fetch->id = free_ids_.back();
  free_ids_.pop_back();
  fetch->submitted_ns = base::monotonic_clock().now_ns();
  for (const Target& target : fetch->targets) {
    SlotState& state = target.batch->slots[target.slot];
    state.submitted_ns = fetch->submitted_ns;
    state.set_stage(Stage::kFetch);
  }
  if (fetch->access == formats::Access::kTogether) loading_shared_[fetch->file] = fetch.get();
  storage::Read read;
  read.path = index_.path(fetch->file);
  read.offset = fetch->extent.offset;
  read.length = fetch->extent.length;
  read.destination = fetch->buffer ? fetch->buffer->data : nullptr;
  read.visitor = fetch->check.get();
  read.to_end = fetch->access != formats::Access::kExtents;
  read.keep_open = fetch->access == formats::Access::kExtents;
  read.tag = fetch->id;
  to_submit_.push_back(read);
  in_flight_[fetch->id] = std::move(fetch);
  ++in_flight_count_;
  if (to_submit_.size() >= kReapMax) submit_ready();
}

void Issuer::submit_ready() {
  if (to_submit_.empty()) return;
  queue_->submit(to_submit_);
  to_submit_.clear();
}

void Issuer::handle(storage::Completion& completion) {
  std::unique_ptr<Fetch> fetch = std::move(in_flight_[completion.tag]);
  FB_CHECK(fetch != nullptr);
  free_ids_.push_back(fetch->id);
  --in_flight_count_;
  if (fetch->access == formats::Access::kTogether) loading_shared_.erase(fetch->file);
  {
    base::MutexLock lock(stats_mutex_);
    ++stats_.reads;
    stats_.retries += static_cast<uint64_t>(completion.retries);
    stats_.file_bytes += completion.bytes;
    const int64_t busy = completion.ended_ns - completion.started_ns;
    stats_.fetch_busy_ns += busy - completion.visit_ns;
    stats_.decode_busy_ns += completion.visit_ns;
    read_ns_.record(static_cast<uint64_t>(std::max<int64_t>(0, busy)));
  }
  if (!completion.status.ok()) {
    fail_targets(*fetch, completion.status.error());
    if (fetch->check) idle_checks_.push_back(std::move(fetch->check));
    release(std::move(fetch));
    return;
  }
  land(std::move(fetch), completion);
}

void Issuer::land(std::unique_ptr<Fetch> fetch, const storage::Completion& completion) {
  fetch->landed_ns = completion.ended_ns;
  const int64_t busy = std::max<int64_t>(1, completion.ended_ns - completion.started_ns);
  fetch->visited_share = static_cast<double>(completion.visit_ns) / static_cast<double>(busy);
  for (const Target& target : fetch->targets) {
    SlotState& state = target.batch->slots[target.slot];
    state.landed_ns = fetch->landed_ns;
    state.visited_share = fetch->visited_share;
    state.file_bytes += fetch->extent.length / fetch->targets.size();
    state.set_stage(Stage::kDecode);
  }
  fetch->payload_bytes = fetch->access == formats::Access::kTogether
                             ? fetch->extent.length / index_.file_index(fetch->file).sample_count
                             : fetch->extent.length / fetch->targets.size();
  if (fetch->check) {
    const Status checked = fetch->check->finish();
    fetch->payload_bytes = fetch->check->payload_bytes();
    if (fetch->access == formats::Access::kTogether)
      fetch->payload_bytes /= index_.file_index(fetch->file).sample_count;
    idle_checks_.push_back(std::move(fetch->check));
    if (!checked.ok() && checked.error().code == ErrorCode::kUnsupported) {
      fetch->must_keep = true;  // this file has to be seen whole
      if (++unsupported_checks_ >= kUnsupportedMax) checks_exist_ = false;
      again_.push_back(std::move(fetch));
      return;
    }
    unsupported_checks_ = 0;
    if (!checked.ok()) {
      fail_targets(*fetch, checked.error());
      release(std::move(fetch));
      return;
    }
  }
  if (fetch->access == formats::Access::kTogether) remember_shared(*fetch);
  const bool needs_decoding = fetch->buffer != nullptr && options_.payload == Payload::kDecode;
  if (needs_decoding || options_.preprocess_ns) {
    pool_->push(std::move(fetch));
    return;
  }
  finish_without_decoding(*fetch);
  release(std::move(fetch));
}

void Issuer::finish_without_decoding(const Fetch& fetch) {
  for (const Target& target : fetch.targets) {
    fill_undecoded(fetch, target);
    flow_.finish(target.batch, target.slot, fetch.landed_ns);
  }
}

void Issuer::fail_targets(const Fetch& fetch, const Error& error) {
  const int64_t now = base::monotonic_clock().now_ns();
  for (const Target& target : fetch.targets) {
    SlotState& state = target.batch->slots[target.slot];
    state.landed_ns = now;
    flow_.record_bad(state.wanted, index_.path(fetch.file), error);
    flow_.finish(target.batch, target.slot, now);
  }
}

void Issuer::remember_shared(const Fetch& fetch) {
  // Without a buffer only the fact is kept that a loader would hold this file now.
  shared_.push_front({fetch.file, fetch.buffer, fetch.payload_bytes, fetch.extent.length});
  shared_bytes_ += fetch.extent.length;
  const uint64_t bytes_max = fetch.buffer ? options_.window_bytes : options_.shard_cache_bytes;
  while (shared_.size() > 1 && (shared_bytes_ > bytes_max || shared_.size() > kSharedFilesMax)) {
    shared_bytes_ -= shared_.back().bytes;
    shared_.pop_back();
  }
}

void Issuer::copy_stats(EngineStats& stats) const {
  base::MutexLock lock(stats_mutex_);
  stats.reads = stats_.reads;
  stats.retries = stats_.retries;
  stats.file_bytes = stats_.file_bytes;
  stats.fetch_busy_ns = stats_.fetch_busy_ns;
  stats.decode_busy_ns += stats_.decode_busy_ns;
}

trace::Histogram Issuer::take_read_times() {
  base::MutexLock lock(stats_mutex_);
  return std::exchange(read_ns_, trace::Histogram());
}

}  // namespace forebay::loader
