#include "loader/issuer.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "sys/thread.h"

namespace forebay::loader {
namespace {

constexpr int kUnsupportedMax = 4;

bool is_unit(formats::Access access) {
  return access == formats::Access::kBlocks || access == formats::Access::kTogether;
}

}  // namespace

Issuer::Issuer(const dataset::Catalog& catalog, const dataset::SampleStream& stream,
               const EngineOptions& options, Flow& flow, UnitCache& units, BufferPool& buffers,
               const std::atomic<uint64_t>& value_bytes, std::unique_ptr<storage::ReadQueue> queue,
               trace::Recorder* recorder)
    : catalog_(catalog),
      stream_(stream),
      options_(options),
      flow_(flow),
      units_(units),
      buffers_(buffers),
      value_bytes_(value_bytes),
      plain_(catalog, options),
      landing_(catalog, options, flow, units, plain_,
               [this](std::unique_ptr<Fetch> fetch) { release(std::move(fetch)); }),
      tuner_({options.fetch_depth, options.decode_threads},
             {std::max(options.fetch_depth, options.fetch_depth_max),
              std::max(options.decode_threads, options.decode_threads_max)},
             {options.fetch_depth_max > 0 ? 1 : options.fetch_depth,
              options.decode_threads_max > 0 ? 1 : options.decode_threads}),
      is_tuned_(options.fetch_depth_max > 1 || options.decode_threads_max > 1),
      reader_(catalog.source(0).index->format().make_reader(catalog.source(0).options)),
      fetch_depth_(options.fetch_depth),
      decode_threads_(options.decode_threads),
      reads_(catalog, options.coalesce_bytes, stream.entropy() == 0, std::move(queue),
             ReadTrace(recorder, options.name)) {}

Issuer::~Issuer() {
  stop_thread();
}

Status Issuer::start(DecodePool& pool) {
  pool_ = &pool;
  landing_.start(pool);
  thread_ = FB_TRY(sys::start_thread(options_.name + "-issue",
                                     [this](std::stop_token stop) { run(std::move(stop)); }));
  return {};
}

void Issuer::stop_thread() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  reads_.wake();
  thread_.join();
}

void Issuer::wake() {
  reads_.wake();
}

void Issuer::release(std::unique_ptr<Fetch> fetch) {
  window_bytes_.fetch_sub(fetch->window_bytes);
  fetch.reset();
  if (!is_window_full_.exchange(false)) return;
  reads_.wake();
  flow_.poke();
}

void Issuer::run(std::stop_token stop) {
  const auto ended = [this](std::unique_ptr<Fetch> fetch) { end(std::move(fetch)); };
  while (!stop.stop_requested()) {
    if (is_tuned_) tune();
    issue(stop);
    if (reads_.is_empty()) {
      const bool waits_for_room = filling_ != nullptr || !again_.empty();
      // Either there is no step to start, or decode threads hold all the bytes the window allows.
      if (!flow_.wait_for_work(waits_for_room ? &is_window_full_ : nullptr, stop)) return;
      continue;
    }
    reads_.reap(stop, ended);
  }
}

void Issuer::tune() {
  const int64_t now = base::monotonic_clock().now_ns();
  if (now - window_start_ns_ < tuner_.window_ns()) return;
  const Flow::Progress progress = flow_.progress(now);
  TunerWindow window;
  window.ns = now - window_start_ns_;
  window.samples = progress.samples - window_progress_.samples;
  if (window.samples < Tuner::kWindowSamples && window.ns < Tuner::kWindowNsMax) return;
  EngineStats stats;
  reads_.copy_stats(stats);
  const int64_t decode_ns = pool_->busy_ns();
  window.reads = stats.reads - window_stats_.reads;
  window.consumer_wait_ns = progress.wait_ns - window_progress_.wait_ns;
  window.fetch_busy_ns = stats.fetch_busy_ns - window_stats_.fetch_busy_ns;
  window.decode_busy_ns = decode_ns - window_decode_ns_;
  const bool is_first = window_start_ns_ == 0;
  window_start_ns_ = now;
  window_progress_ = progress;
  window_stats_ = stats;
  window_decode_ns_ = decode_ns;
  if (is_first) return;
  const TunerSettings before = tuner_.settings();
  const TunerSettings after = tuner_.next(window);
  if (after.fetch_depth != before.fetch_depth)
    fetch_depth_.store(reads_.set_depth(after.fetch_depth), std::memory_order_relaxed);
  if (after.decode_threads == before.decode_threads) return;
  pool_->set_active(after.decode_threads);
  decode_threads_.store(after.decode_threads, std::memory_order_relaxed);
}

// Starts as many samples as free batches and the window allow.
void Issuer::issue(std::stop_token stop) {
  for (; !again_.empty() && window_has_room(again_.front()->extent.length); again_.pop_front())
    submit(std::move(again_.front()));
  while (!stop.stop_requested()) {
    if (filling_ == nullptr) {
      const bool needs_reads =
          reads_.count() < plain_.reads_for_one() *
                               static_cast<size_t>(fetch_depth_.load(std::memory_order_relaxed));
      filling_ = flow_.start_batch(
          needs_reads, [this](BatchState& batch, const Stripe& stripe) { prepare(batch, stripe); });
      next_slot_ = 0;
      if (filling_ == nullptr) break;
      if (preparing_epoch_ != epoch_) {
        epoch_ = preparing_epoch_;
        last_unit_.reset();
        units_.forget_kept();
      }
      slots_to_fill_ = static_cast<uint32_t>(wanted_.size());
    }
    // Once its last slot is given out the batch may be another thread's: it is not looked at again.
    for (; next_slot_ < slots_to_fill_; ++next_slot_) {
      if (!add_target(filling_, next_slot_)) {
        submit_open();
        return;
      }
    }
    filling_ = nullptr;
    hand_out_late();
  }
  submit_open();
}

// The end of a pass: whoever has work for other threads gives it to them.
void Issuer::submit_open() {
  if (open_) submit(std::move(open_));
  reads_.submit();
  hand_out_late();
}

void Issuer::prepare(BatchState& batch, const Stripe& stripe) {
  const uint64_t samples = stripe.batch_samples(batch.step, options_.rank);
  batch.reset(samples, stripe.tail == Tail::kPad ? options_.batch_size : 0);
  preparing_epoch_ = batch.epoch;
  wanted_.resize(samples);
  if (samples == 0) return;  // padding only
  stream_.samples_at(batch.epoch, stripe.position(batch.step, options_.rank, 0), wanted_);
  for (uint64_t i = 0; i < samples; ++i) batch.slots[i].wanted = wanted_[i];
}

bool Issuer::window_has_room(uint64_t bytes) {
  const auto has_room = [&] {
    const uint64_t held = window_bytes_.load();
    return held == 0 || (held + bytes <= options_.window_bytes &&
                         value_bytes_.load(std::memory_order_relaxed) <= options_.value_bytes_max);
  };
  if (has_room()) return true;
  is_window_full_.store(true);  // before the second look, so that no release() is missed
  if (!has_room()) return false;
  is_window_full_.store(false);
  return true;
}

bool Issuer::add_target(BatchState* batch, uint32_t slot) {
  const dataset::SampleLocation where = catalog_.locate(batch->slots[slot].wanted);
  const bool has_blocks = where.access == formats::Access::kBlocks;
  const Target target{batch, slot, has_blocks ? where.sample_in_block : where.sample_in_file,
                      where.extent};
  batch->slots[slot].wanted_file = where.file;
  if (is_unit(where.access) && join_unit(target, where)) return true;
  if (options_.sample_cache && take_from_memory(target, where)) return true;
  std::byte* const row = plain_.row_of(*batch, slot, where);
  // Rows are their batch's memory: they take no room in the window.
  if (row == nullptr && !window_has_room(where.extent.length)) return false;
  if (where.access == formats::Access::kExtents && join_last(target, where.file, row)) return true;
  if (open_) submit(std::move(open_));
  open_ = make_fetch(target, where);
  open_->rows = row;
  if (where.access != formats::Access::kExtents) submit(std::move(open_));
  return true;
}

// Neighbours in the same file become one read; those that are rows also have to be neighbours in
// memory.
bool Issuer::join_last(const Target& target, uint32_t file, const std::byte* row) {
  if (!open_ || open_->file != file || open_->access != formats::Access::kExtents) return false;
  if (row != (open_->rows == nullptr ? nullptr : open_->rows + open_->extent.length)) return false;
  const uint64_t end = open_->extent.offset + open_->extent.length;
  if (target.extent.offset != end ||
      open_->extent.length + target.extent.length > options_.coalesce_bytes)
    return false;
  open_->extent.length += target.extent.length;
  open_->targets.push_back(target);
  return true;
}

// A unit is read and decoded once for all samples that are wanted near each other.
bool Issuer::join_unit(const Target& target, const dataset::SampleLocation& where) {
  if (!last_unit_ || last_unit_->file != where.file || last_unit_->block != where.block ||
      last_unit_->is_forgotten)
    last_unit_ = units_.find(where.file, where.block);
  if (!last_unit_) return false;
  if (Fetch* reading = last_unit_->reading) {
    SlotState& state = target.batch->slots[target.slot];
    state.submitted_ns = reading->submitted_ns;
    state.set_stage(Stage::kFetch);
    reading->targets.push_back(target);
    return true;
  }
  if (last_unit_->late.empty()) late_.push_back(last_unit_);
  last_unit_->late.push_back(target);
  return true;
}

void Issuer::hand_out_late() {
  for (const std::shared_ptr<Unit>& unit : late_) landing_.hand_out(unit);
  late_.clear();
}

std::unique_ptr<Fetch> Issuer::new_fetch() {
  if (spare_.empty()) return std::make_unique<Fetch>();
  std::unique_ptr<Fetch> fetch = std::move(spare_.back());
  spare_.pop_back();
  std::vector<Target> targets = std::move(fetch->targets);  // for its memory
  targets.clear();
  *fetch = Fetch();
  fetch->targets = std::move(targets);
  return fetch;
}

std::unique_ptr<Fetch> Issuer::make_fetch(const Target& target,
                                          const dataset::SampleLocation& where) {
  std::unique_ptr<Fetch> fetch = new_fetch();
  fetch->file = where.file;
  fetch->access = where.access;
  fetch->extent = where.extent;
  fetch->targets.push_back(target);
  if (!is_unit(where.access)) return fetch;
  const formats::FileIndex& layout = catalog_.file_index(where.file);
  fetch->unit = std::make_shared<Unit>();
  fetch->unit->file = where.file;
  fetch->unit->block = where.block;
  fetch->unit->access = where.access;
  fetch->unit->sample_count = where.access == formats::Access::kBlocks
                                  ? layout.blocks[where.block].sample_count
                                  : layout.sample_count;
  fetch->unit->reading = fetch.get();
  units_.insert(fetch->unit);
  return fetch;
}

// What has been read before needs no read. False when it has not.
bool Issuer::take_from_memory(const Target& target, const dataset::SampleLocation& where) {
  const uint64_t part = is_unit(where.access) ? where.block : where.sample_in_file;
  BufferRef kept = options_.sample_cache->find(where.file, part);
  if (!kept) return false;
  std::unique_ptr<Fetch> fetch = make_fetch(target, where);
  fetch->buffer = std::move(kept);
  fetch->is_from_memory = true;
  fetch->submitted_ns = fetch->started_ns = fetch->landed_ns = base::monotonic_clock().now_ns();
  SlotState& state = target.batch->slots[target.slot];
  state.submitted_ns = fetch->submitted_ns;
  land(std::move(fetch));
  return true;
}

bool Issuer::needs_buffer(const Fetch& fetch) const {
  if (options_.keep_samples || options_.sample_cache) return true;
  if (options_.payload == Payload::kBytes) return false;
  // Until a first check tells whether such files can be checked in passing at all, the others keep
  // their bytes, so that one file at most is read twice for it. Those that the window has no room
  // for do not: a data set of large files would begin with one of them in memory.
  const bool is_tried_elsewhere =
      is_trying_check_ && !check_has_passed_ &&
      window_bytes_.load() + fetch.extent.length <= options_.window_bytes;
  return fetch.must_keep || fetch.access == formats::Access::kExtents ||
         fetch.access == formats::Access::kBlocks || !checks_exist_ || is_tried_elsewhere;
}

// Decides where the bytes go: nowhere, through a check in passing, or into a buffer.
bool Issuer::equip(Fetch& fetch) {
  if (fetch.rows != nullptr) return true;
  if (!needs_buffer(fetch) && options_.payload == Payload::kDecode) {
    if (idle_checks_.empty()) {
      if (auto check = reader_->make_stream_check()) idle_checks_.push_back(std::move(check));
    }
    checks_exist_ = !idle_checks_.empty();
    if (checks_exist_) {
      fetch.check = std::move(idle_checks_.back());
      idle_checks_.pop_back();
      is_trying_check_ = true;
      fetch.check->begin(catalog_.path(fetch.file), fetch.extent.length);
      return true;
    }
  }
  if (!needs_buffer(fetch) || fetch.extent.length == 0) return true;
  if (fetch.extent.length > options_.record_bytes_max) {
    landing_.fail_targets(
        fetch, fail(ErrorCode::kUnsupported, "{}: {} in one piece is more than memory allows ({})",
                    catalog_.path(fetch.file),
                    base::format_bytes(static_cast<double>(fetch.extent.length)),
                    base::format_bytes(static_cast<double>(options_.record_bytes_max))));
    return false;
  }
  fetch.buffer = options_.sample_cache ? SampleCache::make_buffer(fetch.extent.length)
                                       : buffers_.acquire(fetch.extent.length);
  fetch.window_bytes = fetch.extent.length;
  window_bytes_.fetch_add(fetch.window_bytes);
  return true;
}

void Issuer::submit(std::unique_ptr<Fetch> fetch) {
  if (!equip(*fetch)) return;
  fetch->submitted_ns = base::monotonic_clock().now_ns();
  fetch->started_ns = INT64_MAX;
  for (const Target& target : fetch->targets) {
    SlotState& state = target.batch->slots[target.slot];
    state.submitted_ns = fetch->submitted_ns;
    state.set_stage(Stage::kFetch);
  }
  fetch = reads_.add(std::move(fetch));
  if (!fetch) return;
  fetch->started_ns = fetch->landed_ns = fetch->submitted_ns;  // a block of fill values
  land(std::move(fetch));
}

// All its reads have ended.
void Issuer::end(std::unique_ptr<Fetch> fetch) {
  if (!fetch->failure) {
    land(std::move(fetch));
    return;
  }
  if (fetch->check) {
    idle_checks_.push_back(std::move(fetch->check));
    is_trying_check_ = false;
  }
  landing_.fail_targets(*fetch, *fetch->failure);
  release(std::move(fetch));
}

// All bytes are there.
void Issuer::land(std::unique_ptr<Fetch> fetch) {
  landing_.note_landed(*fetch);
  if (fetch->rows != nullptr) {
    landing_.finish_rows(*fetch);
    spare_.push_back(std::move(fetch));
    return;
  }
  if (fetch->check && !pass_check(fetch)) return;
  landing_.pass_on(std::move(fetch));
}

bool Issuer::pass_check(std::unique_ptr<Fetch>& fetch) {
  const Status checked = fetch->check->finish();
  fetch->payload_bytes = fetch->check->payload_bytes();
  idle_checks_.push_back(std::move(fetch->check));
  is_trying_check_ = false;
  if (!checked.ok() && checked.error().code == ErrorCode::kUnsupported) {
    fetch->must_keep = true;  // this file has to be seen whole
    if (!check_has_passed_ || ++unsupported_checks_ >= kUnsupportedMax) checks_exist_ = false;
    again_.push_back(std::move(fetch));
    return false;
  }
  unsupported_checks_ = 0;
  check_has_passed_ = true;
  if (checked.ok()) return true;
  landing_.fail_targets(*fetch, checked.error());
  release(std::move(fetch));
  return false;
}

void Issuer::copy_stats(EngineStats& stats) const {
  reads_.copy_stats(stats);
  landing_.copy_stats(stats);
  stats.fetch_depth = fetch_depth_.load(std::memory_order_relaxed);
  stats.decode_threads = decode_threads_.load(std::memory_order_relaxed);
}

trace::Histogram Issuer::take_read_times() {
  return reads_.take_read_times();
}

}  // namespace forebay::loader
