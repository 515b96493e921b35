#include "explain/device_time.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "explain/readings.h"

namespace forebay::explain {

using trace::Category;
using trace::EventKind;
using trace::kNoId;
using trace::TrackId;
using trace::TrackKind;

Intervals merged(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
  Intervals out;
  for (const Interval& next : intervals) {
    if (!out.empty() && next.begin_ns <= out.back().end_ns) {
      out.back().end_ns = std::max(out.back().end_ns, next.end_ns);
    } else {
      out.push_back(next);
    }
  }
  return out;
}

int64_t length_of(const Intervals& intervals) {
  int64_t ns = 0;
  for (const Interval& each : intervals) ns += each.end_ns - each.begin_ns;
  return ns;
}

int64_t overlap_of(const Intervals& a, const Intervals& b) {
  int64_t ns = 0;
  size_t j = 0;
  for (const Interval& each : a) {
    while (j < b.size() && b[j].end_ns <= each.begin_ns) ++j;
    for (size_t k = j; k < b.size() && b[k].begin_ns < each.end_ns; ++k) {
      ns += std::min(each.end_ns, b[k].end_ns) - std::max(each.begin_ns, b[k].begin_ns);
    }
  }
  return ns;
}

bool is_communication_kernel(std::string_view name) {
  const std::string lower = base::to_lower(name);
  return lower.rfind("nccl", 0) == 0 || lower.rfind("rccl", 0) == 0;
}

namespace {

struct DeviceWork {
  Intervals compute, communication, copies;
  uint64_t kernels = 0, copied_bytes = 0;
  int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
};

std::vector<TrackId> streams_of(const View& view, TrackId device) {
  std::vector<TrackId> streams{device};
  for (TrackId id = 0; id < view.words().tracks.size(); ++id) {
    if (view.track(id).parent == device && view.track(id).kind == TrackKind::kStream) {
      streams.push_back(id);
    }
  }
  return streams;
}

void read_stream(const View& view, TrackId stream, DeviceWork& work) {
  const trace::Recording& recording = view.recording();
  const auto rows = recording.rows(stream);
  const auto bytes = view.column(view.keys().bytes, stream);
  for (size_t row = rows.first; row < rows.last; ++row) {
    const trace::Name& name = recording.name(row);
    if (name.kind != EventKind::kSpan) continue;
    const Interval when{recording.start(row), recording.end(row)};
    if (name.category == Category::kCopy) {
      work.copies.push_back(when);
      work.copied_bytes += static_cast<uint64_t>(std::max<int64_t>(0, at(bytes, row - rows.first)));
    } else if (name.category == Category::kCollective ||
               (name.category == Category::kCompute &&
                is_communication_kernel(recording.text(row)))) {
      work.communication.push_back(when);
      ++work.kernels;
    } else if (name.category == Category::kCompute) {
      work.compute.push_back(when);
      ++work.kernels;
    } else {
      continue;
    }
    work.begin_ns = std::min(work.begin_ns, when.begin_ns);
    work.end_ns = std::max(work.end_ns, when.end_ns);
  }
}

DeviceWork read_device(const View& view, TrackId device) {
  DeviceWork work;
  for (const TrackId stream : streams_of(view, device)) read_stream(view, stream, work);
  work.compute = merged(std::move(work.compute));
  work.communication = merged(std::move(work.communication));
  work.copies = merged(std::move(work.copies));
  return work;
}

// What `all` leaves of begin..end.
Intervals without(const Intervals& from, const Intervals& taken) {
  Intervals out;
  size_t j = 0;
  for (const Interval& each : from) {
    int64_t begin = each.begin_ns;
    while (j < taken.size() && taken[j].end_ns <= begin) ++j;
    for (size_t k = j; k < taken.size() && taken[k].begin_ns < each.end_ns; ++k) {
      if (taken[k].begin_ns > begin) out.push_back({begin, taken[k].begin_ns});
      begin = std::max(begin, taken[k].end_ns);
    }
    if (begin < each.end_ns) out.push_back({begin, each.end_ns});
  }
  return out;
}

void add_busy(const Intervals& intervals, Doing doing, Purpose purpose,
              std::vector<Segment>& segments) {
  for (const Interval& each : intervals) {
    segments.push_back({each.begin_ns, each.end_ns, doing, purpose});
  }
}

constexpr Doing kNobody = Doing::kUnrecorded;  // there is no host, or it has ended

// An interpreter takes up to some hundred microseconds from one operator to the next: a host that
// nobody saw for so short a time went on to its next call.
constexpr int64_t kBetweenCallsNs = 1'000'000;

// Idle stretches, cut where the host turns to something else.
void add_idle(const Intervals& idle, const std::vector<Segment>& host,
              std::vector<Segment>& segments) {
  size_t j = 0;
  for (const Interval& gap : idle) {
    int64_t at_ns = gap.begin_ns;
    while (j < host.size() && host[j].end_ns <= gap.begin_ns) ++j;
    for (size_t k = j; k < host.size() && host[k].begin_ns < gap.end_ns; ++k) {
      Segment piece = host[k];
      piece.begin_ns = std::max(piece.begin_ns, at_ns);
      piece.end_ns = std::min(piece.end_ns, gap.end_ns);
      if (piece.begin_ns > at_ns) {
        segments.push_back({.begin_ns = at_ns, .end_ns = piece.begin_ns, .doing = kNobody});
      }
      // The host's computing does not make the device busy.
      if (piece.purpose == Purpose::kCompute) piece.purpose = Purpose::kNone;
      const bool is_short = host[k].end_ns - host[k].begin_ns <= kBetweenCallsNs;
      if (piece.doing == Doing::kUnrecorded && is_short) piece.doing = Doing::kLaunch;
      at_ns = piece.end_ns;
      segments.push_back(piece);
    }
    if (at_ns < gap.end_ns) {
      segments.push_back({.begin_ns = at_ns, .end_ns = gap.end_ns, .doing = kNobody});
    }
  }
}

std::vector<Segment> host_segments(const View& view, TrackId thread) {
  std::vector<Segment> host;
  if (thread == kNoId) return host;
  ActivityWalk(view, thread)
      .run([&](const Segment& segment) { host.push_back(segment); }, [](size_t) {});
  return host;
}

}  // namespace

namespace {

// From the device's first work to its last, and all steps that its host marks: outside of these
// nobody expected anything of it.
Interval active_span(const View& view, const DriverPlan& plan, Interval work) {
  if (plan.host_thread == kNoId) return work;
  const trace::Recording& recording = view.recording();
  const auto rows = recording.rows(plan.host_thread);
  int64_t first_begin = INT64_MAX, last_end = INT64_MIN, gap = -1;
  for (size_t row = rows.first; row < rows.last; ++row) {
    if (!view.is_step(recording.name_id(row))) continue;
    const int64_t begin = recording.start(row), end = recording.end(row);
    if (last_end == INT64_MIN) {
      first_begin = begin;
    } else if (gap < 0) {
      gap = std::max<int64_t>(0, begin - last_end);
    }
    last_end = end;
  }
  if (gap < 0) return work;  // one mark alone makes no steps
  // What comes before a step belongs to it: before the first as much as before the second.
  work.begin_ns = std::min(work.begin_ns, first_begin - gap);
  work.end_ns = std::max(work.end_ns, last_end);
  return work;
}

}  // namespace

std::vector<Segment> device_segments(const View& view, const DriverPlan& plan) {
  const DeviceWork work = read_device(view, plan.track);
  const std::vector<Segment> host = host_segments(view, plan.host_thread);
  Interval span{work.begin_ns, work.end_ns};
  if (!host.empty()) {
    span.begin_ns = std::min(span.begin_ns, host.front().begin_ns);
    span.end_ns = std::max(span.end_ns, host.back().end_ns);
  }
  const Intervals communication = without(work.communication, work.compute);
  Intervals busy = work.compute;
  busy.insert(busy.end(), communication.begin(), communication.end());
  busy = merged(std::move(busy));
  const Intervals copies = without(work.copies, busy);
  busy.insert(busy.end(), copies.begin(), copies.end());
  busy = merged(std::move(busy));
  std::vector<Segment> segments;
  add_busy(work.compute, Doing::kOnCpu, Purpose::kCompute, segments);
  add_busy(communication, Doing::kCollective, Purpose::kSync, segments);
  add_busy(copies, Doing::kCopy, Purpose::kNone, segments);
  Interval active = active_span(view, plan, {work.begin_ns, work.end_ns});
  active.begin_ns = std::max(active.begin_ns, span.begin_ns);
  active.end_ns = std::min(active.end_ns, span.end_ns);
  add_busy(without({span}, {active}), Doing::kOutside, Purpose::kNone, segments);
  add_idle(without({active}, busy), host, segments);
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.begin_ns < b.begin_ns; });
  return segments;
}

namespace {

// HTA: a gap before a kernel that was launched after the stream had run dry waits for the host; a
// shorter one than this is the hardware's. HTA calls its threshold 30 ns, and compares it with
// microseconds.
constexpr int64_t kKernelDelayNs = 30'000;

void split_idle(const View& view, TrackId device,
                const std::unordered_map<int64_t, int64_t>& launches, Accelerator& out) {
  const trace::Recording& recording = view.recording();
  for (const TrackId stream : streams_of(view, device)) {
    const auto rows = recording.rows(stream);
    const auto correlations = view.column(view.keys().correlation, stream);
    int64_t last_end = INT64_MIN;
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (recording.name(row).kind != EventKind::kSpan) continue;
      const int64_t start = recording.start(row);
      if (last_end != INT64_MIN && start > last_end) {
        const auto launch = launches.find(at(correlations, row - rows.first));
        if (launch != launches.end() && launch->second > last_end) {
          out.idle_host_wait_ns += start - last_end;
        } else if (start - last_end < kKernelDelayNs) {
          out.idle_kernel_wait_ns += start - last_end;
        } else {
          out.idle_other_ns += start - last_end;
        }
      }
      last_end = std::max(last_end, recording.end(row));
    }
  }
}

std::optional<double> counter_mean(const View& view, TrackId track, std::string_view name) {
  ReadingSum sum;
  for_each_reading(view, track, name, [&](int64_t begin_ns, int64_t end_ns, double value) {
    sum.add(value, static_cast<double>(end_ns - begin_ns));
  });
  return sum.mean();
}

// When each kernel was launched, by correlation; of one host process's threads.
std::unordered_map<int64_t, int64_t> launches_in_file(const View& view, size_t file) {
  std::unordered_map<int64_t, int64_t> launches;
  for (const TrackId thread : view.threads()) {
    if (view.recording().file_of(thread) != file) continue;
    const auto rows = view.recording().rows(thread);
    const auto correlations = view.column(view.keys().correlation, thread);
    for (size_t i = 0; i < correlations.size(); ++i) {
      if (correlations[i] == trace::kNoValue) continue;
      launches.emplace(correlations[i], view.recording().start(rows.first + i));
    }
  }
  return launches;
}

}  // namespace

std::vector<Accelerator> accelerators_of(const View& view, const Job& job) {
  std::vector<Accelerator> out;
  for (const TrackId device : view.devices()) {
    const bool is_emulated =
        std::any_of(job.drivers.begin(), job.drivers.end(), [&](const DriverPlan& plan) {
          return plan.track == device && plan.kind == DriverKind::kEmulatedDevice;
        });
    if (is_emulated) continue;
    DeviceWork work = read_device(view, device);
    Accelerator here;
    here.name = view.recording().track_path(device);
    here.rank = view.rank_of(device);
    here.busy_share_counter = counter_mean(view, device, "busy_share");
    if (work.kernels > 0 || work.copied_bytes > 0) {
      here.span_ns = work.end_ns - work.begin_ns;
      here.compute_ns = length_of(work.compute);
      here.communication_ns = length_of(work.communication);
      here.copy_ns = length_of(work.copies);
      here.kernels = work.kernels;
      here.copied_bytes = work.copied_bytes;
      Intervals busy = work.compute;
      busy.insert(busy.end(), work.communication.begin(), work.communication.end());
      busy.insert(busy.end(), work.copies.begin(), work.copies.end());
      const int64_t busy_ns = length_of(merged(std::move(busy)));
      here.non_compute_ns = busy_ns - here.compute_ns;
      here.idle_ns = here.span_ns - busy_ns;
      const auto hidden = [&](const Intervals& what, int64_t ns) {
        return ns == 0 ? std::nullopt
                       : std::optional(static_cast<double>(overlap_of(what, work.compute)) /
                                       static_cast<double>(ns));
      };
      here.communication_overlap = hidden(work.communication, here.communication_ns);
      here.copy_overlap = hidden(work.copies, here.copy_ns);
      const auto launches = launches_in_file(view, view.recording().file_of(device));
      here.launches = launches.size();
      split_idle(view, device, launches, here);
    }
    out.push_back(std::move(here));
  }
  return out;
}

}  // namespace forebay::explain
