#include "checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace forebay::checkpoint {
namespace {

// Several jobs in one place may have saves of one sequence.
struct Older {
  bool operator()(const SaveName& a, const SaveName& b) const { return is_older(a, b); }
};
using Names = std::set<SaveName, Older>;

void keep_best(std::span<const KeptSave> saves, const Retention& rules, const Names& counted,
               Names& kept) {
  std::vector<const KeptSave*> judged;
  for (const KeptSave& save : saves) {
    if (counted.count(save.name) != 0 && save.metric && !std::isnan(*save.metric))
      judged.push_back(&save);
  }
  // Of equals the newer one.
  std::sort(judged.begin(), judged.end(), [&](const KeptSave* a, const KeptSave* b) {
    if (*a->metric != *b->metric)
      return rules.is_lower_better ? *a->metric < *b->metric : *a->metric > *b->metric;
    return is_older(b->name, a->name);
  });
  if (judged.size() > rules.keep_best) judged.resize(rules.keep_best);
  for (const KeptSave* save : judged) kept.insert(save->name);
}

}  // namespace

std::vector<SaveName> saves_to_remove(std::span<const KeptSave> saves, const Retention& rules) {
  if (saves.empty() || rules.keep_last == 0) return {};
  Names kept, counted;
  std::set<uint64_t> steps;
  for (size_t i = saves.size(); i-- > 0;) {
    const SaveName& name = saves[i].name;
    if (saves[i].is_damaged) {
      if (counted.empty()) kept.insert(name);
      continue;
    }
    if (!steps.insert(name.step).second) continue;  // saved again since
    counted.insert(name);
    if (counted.size() <= rules.keep_last) kept.insert(name);
    if (rules.keep_every > 0 && name.step % rules.keep_every == 0) kept.insert(name);
  }
  keep_best(saves, rules, counted, kept);
  std::vector<SaveName> out;
  for (const KeptSave& save : saves) {
    if (!save.is_needed && kept.count(save.name) == 0) out.push_back(save.name);
  }
  return out;
}

}  // namespace forebay::checkpoint
