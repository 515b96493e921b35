// Keeps the events of a flood within a rate: those beyond it are counted, by what they are and how
// long they took, and nothing is lost in silence.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "trace/writer.h"

namespace forebay::record {

class EventBudget {
 public:
  explicit EventBudget(uint64_t events_per_second_max);

  // Whether an event that began at `start_ns` may be kept. Long ones always are.
  bool has_room(int64_t start_ns, int64_t duration_ns);
  // Counts one that may not; `name` is that of the span it would have been.
  void count(trace::TrackId track, trace::NameId name, int64_t start_ns, int64_t duration_ns,
             int64_t bytes);
  // Writes what was counted since the last call, as the format's counted calls.
  void write(trace::TraceWriter& writer);

  uint64_t counted() const { return counted_; }

 private:
  struct Sum {
    uint64_t count = 0;
    int64_t bytes = 0, total_ns = 0, first_ns = 0;
  };
  const uint64_t per_window_;
  std::map<int64_t, uint64_t> windows_;  // events kept, by window of a tenth of a second
  int64_t window_ = INT64_MIN;
  uint64_t* in_window_ = nullptr;
  std::map<std::tuple<trace::TrackId, trace::NameId, int64_t>, Sum> sums_;  // by bucket
  uint64_t counted_ = 0;
};

}  // namespace forebay::record
