// How much of a thread's time outside its calls it ran, by the counters of its CPU time: for
// recordings in which nobody saw the scheduler or sampled running code.
//
// Pure functions of a view.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "explain/view.h"

namespace forebay::explain {

class CpuUse {
 public:
  CpuUse() = default;
  CpuUse(const View& view, trace::TrackId thread);

  // Gives begin..end in pieces, in order: in each reading of the counters first what it ran, then
  // what it was ready to, then what it did neither; all of them in proportion to the thread's time
  // outside calls. `take(begin_ns, end_ns, Doing)`.
  template <class Take>
  void split(int64_t begin_ns, int64_t end_ns, Take&& take) const {
    auto reading = std::upper_bound(readings_.begin(), readings_.end(), begin_ns,
                                    [](int64_t ns, const Reading& r) { return ns < r.begin_ns; });
    if (reading != readings_.begin()) --reading;
    for (int64_t at_ns = begin_ns; at_ns < end_ns; ++reading) {
      if (reading == readings_.end()) return take(at_ns, end_ns, Doing::kOnCpu);
      const auto next = reading + 1;
      const int64_t until = next == readings_.end() ? end_ns : std::min(end_ns, next->begin_ns);
      if (until <= at_ns) continue;
      const auto part = [&](double share) {
        return static_cast<int64_t>(share * static_cast<double>(until - at_ns));
      };
      const int64_t ran = std::min(until, at_ns + part(reading->running));
      const int64_t ready = std::min(until, ran + part(reading->ready));
      if (ran > at_ns) take(at_ns, ran, Doing::kOnCpu);
      if (ready > ran) take(ran, ready, Doing::kReady);
      if (until > ready) take(ready, until, Doing::kUnseen);
      at_ns = until;
    }
  }

 private:
  // Shares of the time outside calls, from `begin_ns` to the next reading.
  struct Reading {
    int64_t begin_ns = 0;
    double running = 1, ready = 0;
  };
  std::vector<Reading> readings_;
};

// Whether a thread's CPU time was counted.
bool has_cpu_use(const View& view, trace::TrackId thread);

// By how much on average a thread's waits were recorded as too long: by the scheduler's records it
// ran less than its CPU time is. perf records a switch before and after all that the kernel does to
// switch, which is charged to the thread: 17 us a wait were seen on a virtual machine. At most 50
// us; 0 where its CPU time was not counted.
int64_t switch_ns(const View& view, trace::TrackId thread);

}  // namespace forebay::explain
