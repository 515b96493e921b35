#include "loader/unit.h"

#include <utility>

namespace forebay::loader {
namespace {

constexpr uint64_t kOverheadBytes = 1024;  // of a unit of which only sizes are known

}  // namespace

void fill_from_facts(const Unit& unit, const Target& target) {
  SlotState& state = target.batch->slots[target.slot];
  state.sample.sample = state.wanted;
  state.sample.file = unit.file;
  state.sample.payload_bytes = unit.content.sizes.at(target.sample);
  if (unit.content.raw) {
    state.sample.data.bytes = unit.content.raw->span();
    state.sample.data.shape = {unit.content.raw->size};
    state.sample.owner = unit.content.raw;
  }
  state.is_good = true;
}

const Error* bad_cause(const Unit& unit, uint64_t sample) {
  if (unit.content.error) return &*unit.content.error;
  if (unit.content.bad_samples.empty()) return nullptr;
  const auto found = unit.content.bad_samples.find(sample);
  return found == unit.content.bad_samples.end() ? nullptr : &found->second;
}

UnitCache::UnitCache(uint64_t held_bytes_max, uint64_t real_bytes_max)
    : held_bytes_max_(held_bytes_max), real_bytes_max_(real_bytes_max) {}

std::shared_ptr<Unit> UnitCache::find(uint32_t file, uint32_t block) {
  const base::MutexLock lock(mutex_);
  const auto found = units_.find(key(file, block));
  if (found == units_.end()) return nullptr;
  if (found->second->is_kept) kept_.splice(kept_.begin(), kept_, found->second->place);
  return found->second;
}

void UnitCache::insert(const std::shared_ptr<Unit>& unit) {
  const base::MutexLock lock(mutex_);
  units_[key(unit->file, unit->block)] = unit;
}

void UnitCache::remove(const Unit& unit) {
  const base::MutexLock lock(mutex_);
  const auto found = units_.find(key(unit.file, unit.block));
  if (found != units_.end()) drop(std::shared_ptr<Unit>(found->second));
}

void UnitCache::keep(const std::shared_ptr<Unit>& unit) {
  std::vector<std::shared_ptr<Unit>> dropped;  // their memory goes after the lock
  const base::MutexLock lock(mutex_);
  kept_.push_front(unit);
  unit->place = kept_.begin();
  unit->is_kept = true;
  held_bytes_ += unit->content.held_bytes + kOverheadBytes;
  real_bytes_ += unit->content.real_bytes;
  while (kept_.size() > 1 && (held_bytes_ > held_bytes_max_ || real_bytes_ > real_bytes_max_)) {
    dropped.push_back(kept_.back());
    drop(dropped.back());
  }
}

void UnitCache::forget_kept() {
  std::list<std::shared_ptr<Unit>> dropped;  // their memory goes after the lock
  const base::MutexLock lock(mutex_);
  dropped = kept_;
  for (const std::shared_ptr<Unit>& unit : dropped) drop(unit);
}

void UnitCache::drop(const std::shared_ptr<Unit>& unit) {
  units_.erase(key(unit->file, unit->block));
  if (!unit->is_kept) return;
  unit->is_kept = false;
  held_bytes_ -= unit->content.held_bytes + kOverheadBytes;
  real_bytes_ -= unit->content.real_bytes;
  kept_.erase(unit->place);
}

}  // namespace forebay::loader
