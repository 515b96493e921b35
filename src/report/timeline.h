// The events of a recording as the page draws them: rows of spans that do not overlap, of points
// and of counters, in compact columns.
//
// Pure functions of the recording.
#pragma once

#include <cstdint>
#include <string>

#include "trace/recording.h"

namespace forebay::report {

struct TimelineOptions {
  // Beyond it each row keeps its share: of neighbours in time the longest, of a counter's values
  // the lowest and the highest. The page says how many of how many it shows.
  uint64_t events_max = 1'000'000;
};

struct Timeline {
  std::string blob;  // make_blob(): docs/formats/page.md
  uint64_t events = 0;
  uint64_t kept = 0;
};

Timeline make_timeline(const trace::Recording& recording, const TimelineOptions& options);

}  // namespace forebay::report
