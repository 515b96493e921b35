#include "trace/lanes.h"

namespace forebay::trace {

std::vector<uint32_t> lanes_of(const Recording& recording, TrackId track) {
  const Recording::Rows rows = recording.rows(track);
  std::vector<uint32_t> lanes(rows.size(), 0);
  std::vector<std::vector<int64_t>>
      open;  // by lane: ends of the spans that stand around, outer first
  for (size_t row = rows.first; row < rows.last; ++row) {
    if (recording.name(row).kind != EventKind::kSpan) continue;
    const int64_t start = recording.start(row), end = recording.end(row);
    for (uint32_t lane = 0;; ++lane) {
      if (lane == open.size()) open.emplace_back();
      std::vector<int64_t>& ends = open[lane];
      while (!ends.empty() && ends.back() <= start) ends.pop_back();
      if (!ends.empty() && ends.back() < end) continue;
      ends.push_back(end);
      lanes[row - rows.first] = lane;
      break;
    }
  }
  return lanes;
}

}  // namespace forebay::trace
