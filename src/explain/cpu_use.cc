#include "explain/cpu_use.h"

namespace forebay::explain {

using trace::EventKind;
using trace::TrackId;

namespace {

constexpr std::string_view kRunning = "cpu_cores", kReady = "runnable_cores";

struct Change {
  int64_t at_ns;
  double running, ready;
};

// A counter's value holds until the next one says otherwise.
std::vector<Change> changes_of(const View& view, TrackId thread) {
  const trace::Recording& recording = view.recording();
  const auto rows = recording.rows(thread);
  const auto values = view.column(view.keys().value, thread);
  std::vector<Change> changes;
  Change now{0, 0, 0};
  bool has_begun = false;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t row = rows.first + i;
    if (values[i] == trace::kNoValue || recording.name(row).kind != EventKind::kCounter) continue;
    const std::string& name = recording.text(row);
    if (name != kRunning && name != kReady) continue;
    (name == kRunning ? now.running : now.ready) = trace::real_value(values[i]);
    has_begun = has_begun || name == kRunning;
    now.at_ns = recording.start(row);
    if (!has_begun) continue;
    if (!changes.empty() && changes.back().at_ns == now.at_ns) changes.pop_back();
    changes.push_back(now);
  }
  return changes;
}

// The thread's time outside calls, by the change that it lies behind.
class OutsideCalls {
 public:
  OutsideCalls(const std::vector<Change>& changes, int64_t end_ns)
      : changes_(changes), end_ns_(end_ns), ns_(changes.size(), 0) {}

  void add(int64_t begin_ns, int64_t end_ns) {
    while (at_ + 1 < changes_.size() && changes_[at_ + 1].at_ns <= begin_ns) ++at_;
    for (size_t i = at_; i < changes_.size() && changes_[i].at_ns < end_ns; ++i) {
      const int64_t from = std::max(begin_ns, changes_[i].at_ns);
      ns_[i] += std::max<int64_t>(0, std::min(end_ns, end_of(i)) - from);
    }
  }
  int64_t end_of(size_t i) const {
    return i + 1 < changes_.size() ? changes_[i + 1].at_ns : end_ns_;
  }
  int64_t ns(size_t i) const { return ns_[i]; }

 private:
  const std::vector<Change>& changes_;
  int64_t end_ns_;
  std::vector<int64_t> ns_;
  size_t at_ = 0;
};

}  // namespace

CpuUse::CpuUse(const View& view, TrackId thread) {
  const std::vector<Change> changes = changes_of(view, thread);
  if (changes.empty()) return;
  const trace::Recording& recording = view.recording();
  const auto rows = recording.rows(thread);
  OutsideCalls outside(changes, recording.end_ns());
  int64_t covered_ns = changes.front().at_ns;
  for (size_t row = rows.first; row < rows.last; ++row) {
    if (recording.name(row).kind != EventKind::kSpan) continue;
    if (view.name_class(recording.name_id(row)).is_transparent) continue;
    if (recording.start(row) > covered_ns) outside.add(covered_ns, recording.start(row));
    covered_ns = std::max(covered_ns, recording.end(row));
  }
  outside.add(covered_ns, recording.end_ns());
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto length = static_cast<double>(outside.end_of(i) - changes[i].at_ns);
    Reading reading{.begin_ns = changes[i].at_ns};
    if (outside.ns(i) > 0) {
      const double scale = length / static_cast<double>(outside.ns(i));
      reading.running = std::clamp(changes[i].running * scale, 0.0, 1.0);
      reading.ready = std::clamp(changes[i].ready * scale, 0.0, 1 - reading.running);
    }
    readings_.push_back(reading);
  }
}

bool has_cpu_use(const View& view, TrackId thread) {
  const auto values = view.column(view.keys().value, thread);
  const auto rows = view.recording().rows(thread);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != trace::kNoValue && view.recording().text(rows.first + i) == kRunning) {
      return true;
    }
  }
  return false;
}

int64_t switch_ns(const View& view, TrackId thread) {
  constexpr int64_t kMost = 50'000;
  const std::vector<Change> changes = changes_of(view, thread);
  if (changes.empty()) return 0;
  const trace::Recording& recording = view.recording();
  const auto rows = recording.rows(thread);
  const int64_t begin_ns = changes.front().at_ns;
  int64_t end_ns = begin_ns, waited_ns = 0, waits = 0;
  for (size_t row = rows.first; row < rows.last; ++row) {
    if (recording.name(row).kind != EventKind::kSpan || recording.start(row) < begin_ns) continue;
    end_ns = std::max(end_ns, recording.end(row));
    if (recording.name(row).category != trace::Category::kOffCpu) continue;
    waited_ns += recording.duration(row);
    ++waits;
  }
  double counted_ns = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    const int64_t until = i + 1 < changes.size() ? changes[i + 1].at_ns : end_ns;
    const int64_t length = std::max<int64_t>(0, std::min(until, end_ns) - changes[i].at_ns);
    counted_ns += changes[i].running * static_cast<double>(length);
  }
  if (waits == 0) return 0;
  const auto recorded_ns = static_cast<double>(end_ns - begin_ns - waited_ns);
  const double late_ns = (counted_ns - recorded_ns) / static_cast<double>(waits);
  return std::clamp<int64_t>(static_cast<int64_t>(late_ns), 0, kMost);
}

}  // namespace forebay::explain
