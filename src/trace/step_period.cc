#include "trace/step_period.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace forebay::trace {
namespace {

constexpr size_t kStepsMin = 3;
constexpr size_t kWarmUpSteps = 5;
constexpr size_t kStepsPerWarmUp = 5;

// Of the steps of a track: those of the name that most of them have, or "step" and "iteration"
// around each other would count twice.
std::vector<int64_t> step_starts(const Recording& recording, Recording::Rows rows) {
  std::map<NameId, std::vector<int64_t>> by_name;
  for (size_t row = rows.first; row < rows.last; ++row)
    if (recording.name(row).category == Category::kStep)
      by_name[recording.name_id(row)].push_back(recording.start(row));
  std::vector<int64_t> most;
  for (auto& [name, starts] : by_name)
    if (starts.size() > most.size()) most = std::move(starts);
  return most;
}

}  // namespace

std::optional<StepPeriod> step_period(const Recording& recording) {
  StepPeriod found;
  double sum = 0;
  for (size_t track = 0; track < recording.dictionary().tracks.size(); ++track) {
    const std::vector<int64_t> starts =
        step_starts(recording, recording.rows(static_cast<TrackId>(track)));
    if (starts.size() < kStepsMin) continue;
    const size_t warm_up = std::min(kWarmUpSteps, starts.size() / kStepsPerWarmUp);
    const size_t periods = starts.size() - 1 - warm_up;
    sum +=
        static_cast<double>(starts.back() - starts[warm_up]) * 1e-9 / static_cast<double>(periods);
    found.steps += starts.size();
    ++found.tracks;
  }
  if (found.tracks == 0) return std::nullopt;
  found.seconds = sum / found.tracks;
  return found;
}

}  // namespace forebay::trace
