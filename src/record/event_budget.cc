#include "record/event_budget.h"

#include <algorithm>
#include <bit>

namespace forebay::record {
namespace {

constexpr int64_t kWindowNs = 100'000'000;
constexpr int64_t kWindowsKept = 600;
// A call of a millisecond is a finding whatever else happens; there are at most a thousand a second
// and thread.
constexpr int64_t kAlwaysKeptNs = 1'000'000;

int64_t bucket_of(int64_t duration_ns) {
  return static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(duration_ns, 1))));
}

}  // namespace

EventBudget::EventBudget(uint64_t events_per_second_max)
    : per_window_(events_per_second_max / (1'000'000'000 / kWindowNs)) {}

bool EventBudget::has_room(int64_t start_ns, int64_t duration_ns) {
  const int64_t window = start_ns / kWindowNs;
  if (window != window_) {
    window_ = window;
    in_window_ = &windows_[window];
    while (windows_.size() > kWindowsKept && windows_.begin()->first != window)
      windows_.erase(windows_.begin());
  }
  if (*in_window_ >= per_window_ && duration_ns < kAlwaysKeptNs) return false;
  ++*in_window_;
  return true;
}

void EventBudget::count(trace::TrackId track, trace::NameId name, int64_t start_ns,
                        int64_t duration_ns, int64_t bytes) {
  Sum& sum = sums_[{track, name, bucket_of(duration_ns)}];
  if (sum.count == 0) sum.first_ns = start_ns;
  ++sum.count;
  sum.bytes += bytes;
  sum.total_ns += duration_ns;
  ++counted_;
}

void EventBudget::write(trace::TraceWriter& writer) {
  if (sums_.empty()) return;
  const trace::KeyId count = writer.key(trace::key::kCount), bytes = writer.key(trace::key::kBytes);
  const trace::KeyId total = writer.key("total_ns"), bucket = writer.key("bucket_ns");
  for (const auto& [what, sum] : sums_) {
    const auto& [track, name, bucket_ns] = what;
    const trace::Name span = writer.dictionary().names[name];
    const trace::NameId instant = writer.name(std::string(writer.dictionary().texts[span.text]),
                                              span.category, trace::EventKind::kInstant);
    writer.add({.track = track, .name = instant, .start_ns = sum.first_ns, .duration_ns = 0},
               {{count, static_cast<int64_t>(sum.count)},
                {bytes, sum.bytes},
                {total, sum.total_ns},
                {bucket, bucket_ns}});
  }
  sums_.clear();
}

}  // namespace forebay::record
