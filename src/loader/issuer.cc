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

Issuer::Issuer(const dataset::Index& index, const dataset::Order& order,
               const EngineOptions& options, Flow& flow, UnitCache& units, BufferPool& buffers,
               std::unique_ptr<storage::ReadQueue> queue)
    : index_(index),
      order_(order),
      options_(options),
      flow_(flow),
      units_(units),
      buffers_(buffers),
      landing_(index, options, flow, units,
               [this](std::unique_ptr<Fetch> fetch) { release(std::move(fetch)); }),
      reader_(index.format().make_reader(options.format)),
      reads_(index, options.coalesce_bytes, std::move(queue)) {}

Issuer::~Issuer() {
  stop_thread();
}

Status Issuer::start(DecodePool& pool) {
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
      if (filling_->epoch != epoch_) {
        epoch_ = filling_->epoch;
        last_unit_.reset();
        units_.forget_kept();
      }
      slots_to_fill_ = static_cast<uint32_t>(filling_->slots.size());
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
  batch.reset(samples);
  wanted_.resize(samples);
  order_.samples_at(batch.epoch, stripe.position(batch.step, options_.rank, 0), wanted_);
  for (uint64_t i = 0; i < samples; ++i) batch.slots[i].wanted = wanted_[i];
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

bool Issuer::add_target(BatchState* batch, uint32_t slot) {
  const dataset::SampleLocation where = index_.locate(batch->slots[slot].wanted);
  const bool has_blocks = where.access == formats::Access::kBlocks;
  const Target target{batch, slot, has_blocks ? where.sample_in_block : where.sample_in_file,
                      where.extent};
  batch->slots[slot].wanted_file = where.file;
  if (is_unit(where.access) && join_unit(target, where)) return true;
  if (options_.sample_cache && take_from_memory(target, where)) return true;
  if (!window_has_room(where.extent.length)) return false;
  if (where.access == formats::Access::kExtents && join_last(target, where.file)) return true;
  if (open_) submit(std::move(open_));
  open_ = make_fetch(target, where);
  if (where.access != formats::Access::kExtents) submit(std::move(open_));
  return true;
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

std::unique_ptr<Fetch> Issuer::make_fetch(const Target& target,
                                          const dataset::SampleLocation& where) {
  auto fetch = std::make_unique<Fetch>();
  fetch->file = where.file;
  fetch->access = where.access;
  fetch->extent = where.extent;
  fetch->targets.push_back(target);
  if (!is_unit(where.access)) return fetch;
  const formats::FileIndex& layout = index_.file_index(where.file);
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
  // their bytes: at most one file is read twice for it.
  const bool is_tried_elsewhere = is_trying_check_ && !check_has_passed_;
  return fetch.must_keep || fetch.access == formats::Access::kExtents ||
         fetch.access == formats::Access::kBlocks || !checks_exist_ || is_tried_elsewhere;
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
      is_trying_check_ = true;
      fetch.check->begin(index_.path(fetch.file), fetch.extent.length);
      return true;
    }
  }
  if (!needs_buffer(fetch) || fetch.extent.length == 0) return true;
  if (fetch.extent.length > options_.record_bytes_max) {
    landing_.fail_targets(
        fetch,
        fail(ErrorCode::kUnsupported, "{}: {} in one piece is more than memory allows ({})",
             index_.path(fetch.file), base::format_bytes(static_cast<double>(fetch.extent.length)),
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
}

trace::Histogram Issuer::take_read_times() {
  return reads_.take_read_times();
}

}  // namespace forebay::loader
