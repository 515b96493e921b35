#include "loader/issuer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "sys/thread.h"

namespace forebay::loader {
namespace {

constexpr size_t kReapMax = 64;
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
  submit_ready();
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
  for (const std::shared_ptr<Unit>& unit : late_) hand_out(unit);
  late_.clear();
}

// Targets of a unit that is being decoded, or was of late.
void Issuer::hand_out(const std::shared_ptr<Unit>& unit) {
  std::vector<Target> targets = std::exchange(unit->late, {});
  const int64_t now = base::monotonic_clock().now_ns();
  for (const Target& target : targets) {
    SlotState& state = target.batch->slots[target.slot];
    state.submitted_ns = state.landed_ns = now;
    state.set_stage(Stage::kDecode);
  }
  {
    const base::MutexLock lock(unit->mutex);
    if (!unit->is_decoded) {
      unit->waiting.insert(unit->waiting.end(), targets.begin(), targets.end());
      return;
    }
  }
  auto fetch = std::make_unique<Fetch>();
  fetch->file = unit->file;
  fetch->access = unit->access;
  fetch->unit = unit;
  fetch->targets = std::move(targets);
  fetch->landed_ns = now;
  if (unit->content.block || options_.preprocess_ns)
    pool_->push(std::move(fetch));
  else
    finish_without_decoding(*fetch);
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

void Issuer::keep_in_memory(const Fetch& fetch) {
  if (!options_.sample_cache || fetch.is_from_memory || !fetch.buffer) return;
  SampleCache& cache = *options_.sample_cache;
  if (fetch.unit || fetch.targets.size() == 1) {
    cache.add(fetch.file, fetch.unit ? fetch.unit->block : fetch.targets[0].sample, fetch.buffer);
    return;
  }
  for (const Target& target : fetch.targets) {
    const BufferRef copy = SampleCache::make_buffer(target.extent.length);
    std::memcpy(copy->data, fetch.buffer->data + (target.extent.offset - fetch.extent.offset),
                target.extent.length);
    cache.add(fetch.file, target.sample, copy);
  }
}

bool Issuer::needs_buffer(const Fetch& fetch) const {
  if (options_.keep_samples || options_.sample_cache) return true;
  if (options_.payload == Payload::kBytes) return false;
  return fetch.must_keep || fetch.access == formats::Access::kExtents ||
         fetch.access == formats::Access::kBlocks || !checks_exist_;
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
  if (!needs_buffer(fetch) || fetch.extent.length == 0) return true;
  if (fetch.extent.length > options_.record_bytes_max) {
    fail_targets(
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
  if (free_ids_.empty()) {
    free_ids_.push_back(static_cast<uint32_t>(in_flight_.size()));
    in_flight_.emplace_back();
  }
  fetch->id = free_ids_.back();
  plan_reads(*fetch);
  if (fetch->reads_left == 0) {  // a block of fill values
    fetch->started_ns = fetch->landed_ns = fetch->submitted_ns;
    land(std::move(fetch));
    return;
  }
  free_ids_.pop_back();
  in_flight_[fetch->id] = std::move(fetch);
  ++in_flight_count_;
  if (to_submit_.size() >= kReapMax) submit_ready();
}

// A block's extents go one after the other into its buffer; those that touch become one read.
void Issuer::plan_reads(Fetch& fetch) {
  storage::Read read;
  read.path = index_.path(fetch.file);
  read.visitor = fetch.check.get();
  read.tag = fetch.id;
  read.destination = fetch.buffer ? fetch.buffer->data : nullptr;
  const bool is_whole =
      fetch.access == formats::Access::kWholeFile || fetch.access == formats::Access::kTogether;
  read.to_end = is_whole;
  read.keep_open = !is_whole;
  fetch.reads_left = 0;
  const auto add = [&] {
    if (read.length == 0 && !is_whole) return;
    to_submit_.push_back(read);
    ++fetch.reads_left;
    if (read.destination != nullptr) read.destination += read.length;
  };
  if (fetch.access != formats::Access::kBlocks) {
    read.offset = fetch.extent.offset;
    read.length = fetch.extent.length;
    to_submit_.push_back(read);
    fetch.reads_left = 1;
    return;
  }
  for (const formats::Extent& extent :
       index_.file_index(fetch.file).blocks[fetch.unit->block].extents) {
    const bool touches = read.length > 0 && extent.offset == read.offset + read.length &&
                         read.length + extent.length <= options_.coalesce_bytes;
    if (touches) {
      read.length += extent.length;
      continue;
    }
    add();
    read.offset = extent.offset;
    read.length = extent.length;
  }
  add();
}

void Issuer::submit_ready() {
  if (to_submit_.empty()) return;
  queue_->submit(to_submit_);
  to_submit_.clear();
}

void Issuer::handle(storage::Completion& completion) {
  FB_CHECK(in_flight_[completion.tag] != nullptr);
  Fetch& part = *in_flight_[completion.tag];
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
  part.started_ns = std::min(part.started_ns, completion.started_ns);
  part.landed_ns = std::max(part.landed_ns, completion.ended_ns);
  part.visit_ns += completion.visit_ns;
  if (!completion.status.ok() && !part.failure) part.failure = completion.status.error();
  if (--part.reads_left > 0) return;  // the others still write into the buffer

  std::unique_ptr<Fetch> fetch = std::move(in_flight_[completion.tag]);
  free_ids_.push_back(fetch->id);
  --in_flight_count_;
  if (!fetch->failure) {
    land(std::move(fetch));
    return;
  }
  if (fetch->check) idle_checks_.push_back(std::move(fetch->check));
  fail_targets(*fetch, *fetch->failure);
  release(std::move(fetch));
}

// All bytes are there.
void Issuer::land(std::unique_ptr<Fetch> fetch) {
  const int64_t busy = std::max<int64_t>(1, fetch->landed_ns - fetch->started_ns);
  fetch->visited_share = static_cast<double>(fetch->visit_ns) / static_cast<double>(busy);
  const uint64_t bytes = fetch->is_from_memory ? 0 : fetch->extent.length;
  for (size_t i = 0; i < fetch->targets.size(); ++i) {
    const Target& target = fetch->targets[i];
    SlotState& state = target.batch->slots[target.slot];
    state.landed_ns = fetch->landed_ns;
    state.visited_share = fetch->visited_share;
    state.file_bytes += share_of(bytes, fetch->targets.size(), i);
    state.set_stage(Stage::kDecode);
  }
  if (fetch->is_from_memory) {
    base::MutexLock lock(stats_mutex_);
    stats_.memory_samples += fetch->targets.size();
  }
  fetch->payload_bytes = fetch->extent.length;
  if (fetch->check && !pass_check(fetch)) return;
  keep_in_memory(*fetch);
  if (fetch->unit) {
    land_unit(std::move(fetch));
    return;
  }
  const bool needs_decoding = fetch->buffer != nullptr && options_.payload == Payload::kDecode;
  if (needs_decoding || options_.preprocess_ns) {
    pool_->push(std::move(fetch));
    return;
  }
  finish_without_decoding(*fetch);
  release(std::move(fetch));
}

bool Issuer::pass_check(std::unique_ptr<Fetch>& fetch) {
  const Status checked = fetch->check->finish();
  fetch->payload_bytes = fetch->check->payload_bytes();
  idle_checks_.push_back(std::move(fetch->check));
  if (!checked.ok() && checked.error().code == ErrorCode::kUnsupported) {
    fetch->must_keep = true;  // this file has to be seen whole
    if (++unsupported_checks_ >= kUnsupportedMax) checks_exist_ = false;
    again_.push_back(std::move(fetch));
    return false;
  }
  unsupported_checks_ = 0;
  if (checked.ok()) return true;
  fail_targets(*fetch, checked.error());
  release(std::move(fetch));
  return false;
}

void Issuer::land_unit(std::unique_ptr<Fetch> fetch) {
  Unit& unit = *fetch->unit;
  unit.reading = nullptr;
  const bool was_checked = fetch->buffer == nullptr && fetch->access != formats::Access::kBlocks;
  fetch->decodes = options_.payload == Payload::kDecode && !was_checked;
  if (fetch->decodes) {
    {
      base::MutexLock lock(stats_mutex_);
      ++stats_.blocks_decoded;
    }
    pool_->push(std::move(fetch));
    return;
  }
  // Without a buffer only the fact is kept that a loader would hold these bytes now.
  unit.content.sizes = {.total = fetch->payload_bytes, .count = unit.sample_count};
  unit.content.held_bytes = fetch->extent.length;
  if (fetch->buffer && options_.keep_samples) {
    unit.content.raw = fetch->buffer;
    unit.content.real_bytes = fetch->extent.length;
  }
  {
    const base::MutexLock lock(unit.mutex);
    unit.is_decoded = true;
  }
  units_.keep(fetch->unit);
  if (options_.preprocess_ns) {
    pool_->push(std::move(fetch));
    return;
  }
  finish_without_decoding(*fetch);
  release(std::move(fetch));
}

void Issuer::finish_without_decoding(const Fetch& fetch) {
  for (const Target& target : fetch.targets) {
    if (!fetch.unit) {
      fill_undecoded(fetch, target);
    } else if (const Error* cause = bad_cause(*fetch.unit, target.sample)) {
      flow_.record_bad(target.batch->slots[target.slot].wanted, index_.path(fetch.file), *cause);
    } else {
      fill_from_facts(*fetch.unit, target);
    }
  }
  flow_.finish(fetch.targets, fetch.landed_ns);
}

// Nobody may join a unit that could not be read: it has to be read again.
void Issuer::fail_targets(const Fetch& fetch, const Error& error) {
  if (fetch.unit) {
    fetch.unit->is_forgotten = true;
    fetch.unit->reading = nullptr;
    units_.remove(*fetch.unit);
  }
  const int64_t now = base::monotonic_clock().now_ns();
  for (const Target& target : fetch.targets) {
    SlotState& state = target.batch->slots[target.slot];
    state.landed_ns = now;
    flow_.record_bad(state.wanted, index_.path(fetch.file), error);
    flow_.finish(target.batch, target.slot, now);
  }
}

void Issuer::copy_stats(EngineStats& stats) const {
  base::MutexLock lock(stats_mutex_);
  stats.reads = stats_.reads;
  stats.retries = stats_.retries;
  stats.file_bytes = stats_.file_bytes;
  stats.memory_samples = stats_.memory_samples;
  stats.blocks_decoded = stats_.blocks_decoded;
  stats.fetch_busy_ns = stats_.fetch_busy_ns;
  stats.decode_busy_ns += stats_.decode_busy_ns;
}

trace::Histogram Issuer::take_read_times() {
  base::MutexLock lock(stats_mutex_);
  return std::exchange(read_ns_, trace::Histogram());
}

}  // namespace forebay::loader
