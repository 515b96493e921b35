// Whether steps take longer later in a run, and which stall grew; whether their pace changes at
// all.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "explain/explanation.h"
#include "explain/rules.h"

namespace forebay::explain {

// The steps before and after the place where stalls began to take longer.
struct Slowdown {
  bool has_epochs = false;
  Breakdown first, later;  // sums
  size_t first_steps = 0, later_steps = 0;
  double longer_share =
      0;  // of all pairs of a first and a later step the later has more of `grown`

  double first_of(Part part) const {
    return static_cast<double>(first[part]) / static_cast<double>(first_steps);
  }
  double later_of(Part part) const {
    return static_cast<double>(later[part]) / static_cast<double>(later_steps);
  }
  double first_ns() const {
    return static_cast<double>(first.total_ns()) / static_cast<double>(first_steps);
  }
  double later_ns() const {
    return static_cast<double>(later.total_ns()) / static_cast<double>(later_steps);
  }
  // The stall that grew most. That computing takes longer later has other reasons than epochs.
  Part grown() const {
    Part most = Part::kFetchStall;
    for (const Part part : {Part::kPrepStall, Part::kIdle, Part::kOther}) {
      if (later_of(part) - first_of(part) > later_of(most) - first_of(most)) most = part;
    }
    return most;
  }
  double grown_ns() const { return later_of(grown()) - first_of(grown()); }
  // A change that stays: steps that are long now and then, as on a machine that others use, are
  // none.
  bool is_slower() const {
    return longer_share >= 0.8 && later_ns() >= 1.2 * first_ns() && grown_ns() >= 0.2 * first_ns();
  }
};

// Split at the first epoch's end; without epochs where the means on both sides differ most. Time
// without a core does not count. Nothing with fewer than eight iterations of the first driver.
std::optional<Slowdown> slowdown_of(const Findings& f);

// Whether that part of the first driver's time is mostly waiting for threads of the job which
// lacked cores for a fifth of what they did: then it says what else the host did, not what the
// program does.
bool waits_for_crowded_threads(const JobTime& time, Part part);

// One place at which the lengths of a driver's ordinary steps change for good: by a fifth or more
// of the median, for at least eight and a tenth of the steps on either side, with nine of ten steps
// after it beyond the middle of those before, and not by chance (p < 0.001 over all places that
// were looked at). Steps that are long now and then, or a run that drifts by less, have none.
std::optional<PaceChange> pace_of(const DriverTime& time, const Driver& driver, int64_t origin_ns);

// Stretches of at least five ordinary steps, at most half of all, that are longer than the others:
// by a quarter of the median or more, three of four steps by a fifth, and not by chance (p < 0.01
// over all stretches that there are). On either side of a change of pace by itself.
std::vector<SlowPhase> phases_of(const DriverTime& time, const Driver& driver, int64_t origin_ns,
                                 const std::optional<PaceChange>& pace);

}  // namespace forebay::explain
