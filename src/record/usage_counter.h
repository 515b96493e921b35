// A counter of the trace that is fed with readings: rates from sums, and each value once while it
// stays the same.
//
// One thread at a time; the writer must outlive it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "trace/writer.h"

namespace forebay::record {

class UsageCounter {
 public:
  UsageCounter() = default;
  // `most`: what a rate of total() cannot exceed, as one core or the whole of the time.
  UsageCounter(trace::TraceWriter& writer, trace::TrackId track, std::string_view name,
               double most = std::numeric_limits<double>::infinity());

  // A value that holds from `at_ns` on.
  void value(trace::TraceWriter& writer, int64_t at_ns, double value);
  // A sum that only grows: writes its growth times `scale` per second for the time since the last
  // reading. One that went back, because its source began anew, is skipped. Growth beyond `most`
  // was before: the kernel adds a wait to its sum when the wait ends. It reaches back to where the
  // sum stood still; what finds no room there is counted in the next interval.
  void total(trace::TraceWriter& writer, int64_t at_ns, uint64_t total, double scale = 1);

 private:
  trace::TrackId track_ = trace::kNoId;
  trace::NameId name_ = trace::kNoId;
  std::optional<double> shown_;
  double most_ = std::numeric_limits<double>::infinity();
  std::optional<uint64_t> total_;
  double surplus_ = 0;  // of the growth, not yet written
  int64_t total_at_ns_ = 0;
  int64_t still_since_ns_ = 0;  // when the sum last grew before total_at_ns_
};

}  // namespace forebay::record
