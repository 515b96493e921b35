// Which checkpoints a tier keeps.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/tier.h"

namespace forebay::checkpoint {

struct KeptSave {
  SaveName name;
  std::optional<double> metric{};  // that retention judges by
  bool is_needed = false;          // being read, or not yet on the next tier
  bool is_damaged = false;
};

struct Retention {
  uint64_t keep_last = 0;   // the newest so many; 0 = all
  uint64_t keep_every = 0;  // and steps that are multiples of it; 0 = none
  uint64_t keep_best = 0;   // and so many with the best metric
  bool is_lower_better = true;
};

// Those to remove, oldest first. Never the newest that is not damaged, nor one that is needed. Of
// several saves of one step only the newest counts for the rules; the others go as if they were
// old. Damaged ones count for no rule; those newer than all others stay, as another tier may have
// what they lack. `saves`: oldest first.
std::vector<SaveName> saves_to_remove(std::span<const KeptSave> saves, const Retention& rules);

}  // namespace forebay::checkpoint
