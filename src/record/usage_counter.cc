#include "record/usage_counter.h"

#include <algorithm>
#include <cmath>

namespace forebay::record {

UsageCounter::UsageCounter(trace::TraceWriter& writer, trace::TrackId track, std::string_view name,
                           double most)
    : track_(track),
      name_(writer.name(name, trace::Category::kUsage, trace::EventKind::kCounter)),
      most_(most) {}

void UsageCounter::value(trace::TraceWriter& writer, int64_t at_ns, double value) {
  if (shown_ == value) return;
  shown_ = value;
  writer.counter(track_, name_, at_ns, value);
}

void UsageCounter::total(trace::TraceWriter& writer, int64_t at_ns, uint64_t total, double scale) {
  if (!total_ || total < *total_) {
    surplus_ = 0;
    still_since_ns_ = at_ns;
  } else if (at_ns > total_at_ns_) {
    const double seconds = static_cast<double>(at_ns - total_at_ns_) * 1e-9;
    const double grown = static_cast<double>(total - *total_) * scale + surplus_;
    const double here = std::min(grown, most_ * seconds);
    surplus_ = grown - here;
    if (surplus_ > 0 && still_since_ns_ < total_at_ns_) {
      const double still_seconds = static_cast<double>(total_at_ns_ - still_since_ns_) * 1e-9;
      const double before = std::min(surplus_ / most_, still_seconds);
      surplus_ -= before * most_;
      // A nanosecond later than the value that stands there already: they keep their order.
      value(writer,
            std::max<int64_t>(still_since_ns_ + 1, total_at_ns_ - std::llround(before * 1e9)),
            most_);
    }
    // The rate held during the interval that ends now.
    value(writer, total_at_ns_, std::min(here / seconds, most_));
    if (grown > 0) still_since_ns_ = at_ns;
  }
  total_ = total;
  total_at_ns_ = at_ns;
}

}  // namespace forebay::record
