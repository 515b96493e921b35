#include "loader/landing.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "loader/sample_cache.h"

namespace forebay::loader {

Landing::Landing(const dataset::Catalog& catalog, const EngineOptions& options, Flow& flow,
                 UnitCache& units, PlainRows& plain,
                 std::function<void(std::unique_ptr<Fetch>)> release)
    : catalog_(catalog),
      options_(options),
      flow_(flow),
      units_(units),
      plain_(plain),
      release_(std::move(release)) {}

void Landing::note_landed(Fetch& fetch) {
  const int64_t busy = std::max<int64_t>(1, fetch.landed_ns - fetch.started_ns);
  fetch.visited_share = static_cast<double>(fetch.visit_ns) / static_cast<double>(busy);
  const uint64_t bytes = fetch.is_from_memory ? 0 : fetch.extent.length;
  for (size_t i = 0; i < fetch.targets.size(); ++i) {
    const Target& target = fetch.targets[i];
    SlotState& state = target.batch->slots[target.slot];
    state.landed_ns = fetch.landed_ns;
    state.visited_share = fetch.visited_share;
    state.file_bytes += share_of(bytes, fetch.targets.size(), i);
    state.set_stage(Stage::kDecode);
  }
  if (fetch.is_from_memory)
    memory_samples_.fetch_add(fetch.targets.size(), std::memory_order_relaxed);
  fetch.payload_bytes = fetch.extent.length;
}

void Landing::finish_rows(const Fetch& fetch) {
  plain_.complete(fetch);
  flow_.finish(fetch.targets, fetch.landed_ns);
}

void Landing::pass_on(std::unique_ptr<Fetch> fetch) {
  keep_in_memory(*fetch);
  if (fetch->unit) {
    pass_on_unit(std::move(fetch));
    return;
  }
  if (fetch->needs_decoding(options_) || options_.preprocess_ns) {
    pool_->push(std::move(fetch));
    return;
  }
  finish_without_decoding(*fetch);
  release_(std::move(fetch));
}

void Landing::keep_in_memory(const Fetch& fetch) {
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

void Landing::pass_on_unit(std::unique_ptr<Fetch> fetch) {
  Unit& unit = *fetch->unit;
  unit.reading = nullptr;
  const bool was_checked = fetch->buffer == nullptr && fetch->access != formats::Access::kBlocks;
  fetch->decodes = options_.payload == Payload::kDecode && !was_checked;
  if (fetch->decodes) {
    blocks_decoded_.fetch_add(1, std::memory_order_relaxed);
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
  release_(std::move(fetch));
}

void Landing::hand_out(const std::shared_ptr<Unit>& unit) {
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

void Landing::finish_without_decoding(const Fetch& fetch) {
  for (const Target& target : fetch.targets) {
    if (!fetch.unit) {
      fill_undecoded(fetch, target);
    } else if (const Error* cause = bad_cause(*fetch.unit, target.sample)) {
      flow_.record_bad(*target.batch, target.batch->slots[target.slot].wanted,
                       catalog_.path(fetch.file), *cause);
    } else {
      fill_from_facts(*fetch.unit, target);
    }
  }
  flow_.finish(fetch.targets, fetch.landed_ns);
}

// Nobody may join a unit that could not be read: it has to be read again.
void Landing::fail_targets(const Fetch& fetch, const Error& error) {
  if (fetch.unit) {
    fetch.unit->is_forgotten = true;
    fetch.unit->reading = nullptr;
    units_.remove(*fetch.unit);
  }
  const int64_t now = base::monotonic_clock().now_ns();
  for (const Target& target : fetch.targets) {
    SlotState& state = target.batch->slots[target.slot];
    state.landed_ns = now;
    flow_.record_bad(*target.batch, state.wanted, catalog_.path(fetch.file), error);
    flow_.finish(target.batch, target.slot, now);
  }
}

void Landing::copy_stats(EngineStats& stats) const {
  stats.memory_samples = memory_samples_.load(std::memory_order_relaxed);
  stats.blocks_decoded = blocks_decoded_.load(std::memory_order_relaxed);
}

}  // namespace forebay::loader
