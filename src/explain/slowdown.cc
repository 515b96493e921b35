#include "explain/slowdown.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/median.h"
#include "explain/swarms.h"

namespace forebay::explain {

namespace {

// An ordinary step: its parts, and its length, with a core.
struct PacedStep {
  const Iteration* step = nullptr;
  Breakdown parts = {};
  double ns = 0;
};

std::vector<PacedStep> paced_steps(const DriverTime& time, const Driver& driver,
                                   int64_t origin_ns) {
  std::vector<PacedStep> steps;
  const std::vector<CauseKind> kinds = time.kinds_of_causes();
  size_t next = 0;
  for (const Iteration& step : driver.iterations) {
    const int64_t begin_ns = origin_ns + step.begin_ns, end_ns = origin_ns + step.end_ns;
    while (next < time.pieces.size() && time.pieces[next].end_ns <= begin_ns) ++next;
    PacedStep paced{.step = &step, .parts = step.parts};
    for (size_t i = next; i < time.pieces.size() && time.pieces[i].begin_ns < end_ns; ++i) {
      const Owned& piece = time.pieces[i];
      if (kinds[piece.cause] == CauseKind::kOther) continue;
      paced.parts[piece.part] -=
          std::min(end_ns, piece.end_ns) - std::max(begin_ns, piece.begin_ns);
    }
    if (step.is_partial || step.has_checkpoint || step.is_epoch_start) continue;
    paced.ns = static_cast<double>(std::max<int64_t>(paced.parts.total_ns(), 1));
    steps.push_back(paced);
  }
  return steps;
}

// Where the means of the logarithms on both sides differ most for their numbers: a few odd steps
// weigh little.
size_t parting_place(const std::vector<PacedStep>& steps, size_t margin) {
  double all = 0, before = 0, most = 0;
  for (const PacedStep& step : steps) all += std::log(step.ns);
  size_t place = 0;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    before += std::log(steps[i].ns);
    const auto n = static_cast<double>(i + 1), m = static_cast<double>(steps.size() - i - 1);
    const double apart = (all - before) / m - before / n;
    const double weight = apart * apart * n * m;
    if (i + 1 < margin || i + 1 + margin > steps.size() || weight <= most) continue;
    most = weight;
    place = i + 1;
  }
  return place;
}

using Steps = std::span<const PacedStep>;

double usual_of(Steps steps, const std::vector<bool>& is_out) {
  std::vector<double> lengths;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!is_out[i]) lengths.push_back(steps[i].ns);
  }
  return base::median_of(std::move(lengths));
}

// The stretch with the most long steps, where each other one outweighs three: [first, last).
std::pair<size_t, size_t> longest_stretch(Steps steps, const std::vector<bool>& is_taken,
                                          double usual_ns) {
  constexpr double kLong = 1.2;
  constexpr int kOutweighs = 3;
  std::pair<size_t, size_t> best{0, 0};
  int64_t most = 0, sum = 0;
  size_t first = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (is_taken[i] || sum <= 0) {
      sum = 0;
      first = is_taken[i] ? i + 1 : i;
    }
    if (is_taken[i]) continue;
    sum += steps[i].ns > kLong * usual_ns ? 1 : -kOutweighs;
    if (sum <= most) continue;
    most = sum;
    best = {first, i + 1};
  }
  return best;
}

// What grows from some steps to others most, and by how much a step.
std::pair<Part, int64_t> most_grown(const Breakdown& from, size_t from_n, const Breakdown& to,
                                    size_t to_n) {
  std::pair<Part, double> most{Part::kOther, 0};
  for (size_t i = 0; i < kParts; ++i) {
    const double difference = static_cast<double>(to.ns[i]) / static_cast<double>(to_n) -
                              static_cast<double>(from.ns[i]) / static_cast<double>(from_n);
    if (difference > most.second) most = {static_cast<Part>(i), difference};
  }
  return {most.first, static_cast<int64_t>(most.second)};
}

// A stretch of steps beside all that are in no phase; nothing where it is none.
std::optional<SlowPhase> phase_at(Steps steps, size_t first, size_t last,
                                  const std::vector<bool>& is_taken, const Iteration* begin) {
  constexpr size_t kStepsMin = 5;
  constexpr double kChange = 1.25, kChance = 0.01;
  std::vector<double> inside, outside;
  Breakdown parts_inside, parts_outside;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool is_inside = i >= first && i < last;
    if (!is_inside && is_taken[i]) continue;
    (is_inside ? inside : outside).push_back(steps[i].ns);
    (is_inside ? parts_inside : parts_outside).add(steps[i].parts);
  }
  if (inside.size() < kStepsMin || inside.size() * 2 > steps.size() || outside.empty()) {
    return std::nullopt;
  }
  const double slow_ns = base::median_of(inside), usual_ns = base::median_of(outside);
  if (slow_ns < kChange * usual_ns) return std::nullopt;
  const auto n = static_cast<double>(steps.size());
  const double p = mann_whitney_p(outside, inside).value_or(1) * n * (n - 1) / 2;
  if (p >= kChance) return std::nullopt;
  SlowPhase phase{.n = inside.size(), .p = p};
  phase.first_step = static_cast<uint64_t>(steps[first].step - begin) + 1;
  phase.last_step = static_cast<uint64_t>(steps[last - 1].step - begin) + 1;
  phase.begin_ns = steps[first].step->begin_ns;
  phase.end_ns = steps[last - 1].step->end_ns;
  phase.ns = static_cast<int64_t>(slow_ns);
  phase.ordinary_ns = static_cast<int64_t>(usual_ns);
  std::tie(phase.part, phase.part_ns) =
      most_grown(parts_outside, outside.size(), parts_inside, inside.size());
  return phase;
}

void add_phases(Steps steps, const Iteration* begin, std::vector<SlowPhase>& out) {
  constexpr size_t kStepsMin = 16, kPhasesMax = 8;
  if (steps.size() < kStepsMin) return;
  std::vector<bool> is_taken(steps.size(), false);
  for (size_t found = 0; found < kPhasesMax; ++found) {
    const auto [first, last] = longest_stretch(steps, is_taken, usual_of(steps, is_taken));
    if (first == last) return;
    const std::optional<SlowPhase> phase = phase_at(steps, first, last, is_taken, begin);
    if (!phase) return;
    out.push_back(*phase);
    std::fill(is_taken.begin() + static_cast<std::ptrdiff_t>(first),
              is_taken.begin() + static_cast<std::ptrdiff_t>(last), true);
  }
}

}  // namespace

bool waits_for_crowded_threads(const JobTime& time, Part part) {
  const DriverTime& driver = time.drivers.front();
  const Blame& waited = driver.waited_for;
  const bool is_own = part == Part::kCompute || part == Part::kCopy || part == Part::kCheckpoint ||
                      (part == Part::kFetchStall &&
                       driver.own_read_ns + driver.own_metadata_ns + driver.own_network_ns >=
                           waited.fetch + waited.network) ||
                      (part == Part::kPrepStall && driver.own_prepare_ns >= waited.prepare);
  if (is_own) return false;
  int64_t busy = 0, ready = 0;
  for (const HelperUse& helper : time.helpers) {
    busy += helper.in_stalls.busy();
    ready += helper.in_stalls.ready;
  }
  for (size_t i = 1; i < time.drivers.size(); ++i) {
    const DriverTime& other = time.drivers[i];
    for (const Owned& piece : other.pieces) {
      if (piece.part == Part::kCompute) busy += piece.end_ns - piece.begin_ns;
    }
    busy += other.ready_ns;
    ready += other.ready_ns;
  }
  return ready * 5 > busy;
}

std::vector<SlowPhase> phases_of(const DriverTime& time, const Driver& driver, int64_t origin_ns,
                                 const std::optional<PaceChange>& pace) {
  const std::vector<PacedStep> steps = paced_steps(time, driver, origin_ns);
  const Iteration* const begin = driver.iterations.data();
  const auto parting = std::find_if(steps.begin(), steps.end(), [&](const PacedStep& one) {
    return pace && static_cast<uint64_t>(one.step - begin) + 1 >= pace->first_step;
  });
  std::vector<SlowPhase> found;
  add_phases({steps.begin(), parting}, begin, found);
  add_phases({parting, steps.end()}, begin, found);
  std::sort(found.begin(), found.end(),
            [](const SlowPhase& a, const SlowPhase& b) { return a.first_step < b.first_step; });
  return found;
}

std::optional<PaceChange> pace_of(const DriverTime& time, const Driver& driver, int64_t origin_ns) {
  constexpr size_t kStepsMin = 8;
  constexpr double kChange = 1.2, kBeyond = 0.9, kChance = 0.001;
  const std::vector<PacedStep> steps = paced_steps(time, driver, origin_ns);
  const size_t margin = std::max(kStepsMin, steps.size() / 10);
  if (steps.size() < 2 * margin) return std::nullopt;
  const size_t place = parting_place(steps, margin);
  if (place == 0) return std::nullopt;
  std::vector<double> before, after;
  Breakdown parts_before, parts_after;
  for (size_t i = 0; i < steps.size(); ++i) {
    (i < place ? before : after).push_back(steps[i].ns);
    (i < place ? parts_before : parts_after).add(steps[i].parts);
  }
  const double old_ns = base::median_of(before), new_ns = base::median_of(after);
  const bool is_slower = new_ns > old_ns;
  if (std::max(old_ns, new_ns) < kChange * std::min(old_ns, new_ns)) return std::nullopt;
  const auto beyond = static_cast<double>(std::count_if(after.begin(), after.end(), [&](double ns) {
    return is_slower ? ns > old_ns : ns < old_ns;
  }));
  if (beyond < kBeyond * static_cast<double>(after.size())) return std::nullopt;
  PaceChange change{.before_n = before.size(), .after_n = after.size()};
  change.p = std::min(1.0, mann_whitney_p(before, after).value_or(1) *
                               static_cast<double>(steps.size() - 2 * margin + 1));
  if (change.p >= kChance) return std::nullopt;
  change.first_step = static_cast<uint64_t>(steps[place].step - driver.iterations.data()) + 1;
  change.at_ns = steps[place].step->begin_ns;
  change.before_ns = static_cast<int64_t>(old_ns);
  change.after_ns = static_cast<int64_t>(new_ns);
  double most = 0;
  for (size_t i = 0; i < kParts; ++i) {
    const double difference =
        static_cast<double>(parts_after.ns[i]) / static_cast<double>(after.size()) -
        static_cast<double>(parts_before.ns[i]) / static_cast<double>(before.size());
    if ((is_slower ? difference : -difference) <= most) continue;
    most = is_slower ? difference : -difference;
    change.part = static_cast<Part>(i);
    change.part_ns = static_cast<int64_t>(difference);
  }
  return change;
}

std::optional<Slowdown> slowdown_of(const Findings& f) {
  constexpr size_t kStepsMin = 4;
  if (!f.found.iterations.is_found || f.found.drivers.empty()) return std::nullopt;
  const Driver& driver = f.found.drivers.front();
  const std::vector<PacedStep> steps =
      paced_steps(f.time.drivers.front(), driver, f.view.recording().begin_ns());
  if (steps.size() < 2 * kStepsMin) return std::nullopt;
  size_t epoch_end = 0;
  for (size_t i = kStepsMin; i + kStepsMin <= steps.size() && epoch_end == 0; ++i) {
    const bool begins_epoch = std::any_of(steps[i - 1].step, steps[i].step,
                                          [](const Iteration& one) { return one.is_epoch_start; });
    if (begins_epoch) epoch_end = i;
  }
  size_t split = epoch_end > 0 ? epoch_end : parting_place(steps, kStepsMin);
  if (split == 0) split = steps.size() / 2;
  Slowdown found;
  found.has_epochs = epoch_end > 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    (i < split ? found.first : found.later).add(steps[i].parts);
    ++(i < split ? found.first_steps : found.later_steps);
  }
  const Part grown = found.grown();
  std::vector<int64_t> first;
  for (size_t i = 0; i < split; ++i) first.push_back(steps[i].parts[grown]);
  std::sort(first.begin(), first.end());
  double longer = 0;
  for (size_t i = split; i < steps.size(); ++i) {
    longer += static_cast<double>(
        std::lower_bound(first.begin(), first.end(), steps[i].parts[grown]) - first.begin());
  }
  found.longer_share =
      longer / static_cast<double>(split) / static_cast<double>(steps.size() - split);
  return found;
}

}  // namespace forebay::explain
