#include "explain/driver_time.h"

#include <algorithm>

#include "explain/device_time.h"
#include "explain/driver_owner.h"
#include "explain/driver_reader.h"
#include "explain/driver_work.h"
#include "explain/wait_blame.h"

namespace forebay::explain {

void Blame::add(const Blame& more) {
  fetch += more.fetch;
  network += more.network;
  prepare += more.prepare;
  save += more.save;
  write += more.write;
  lock += more.lock;
  sleep += more.sleep;
  sync += more.sync;
  compute += more.compute;
  ready += more.ready;
}

std::vector<CauseKind> DriverTime::kinds_of_causes() const {
  std::vector<CauseKind> kinds;
  for (const std::string& cause : causes) {
    const bool is_inside = cause.size() > kWithoutCore.size() && cause.ends_with(kWithoutCore);
    kinds.push_back(cause == kReadyCause ? CauseKind::kReady
                    : is_inside          ? CauseKind::kWithoutCore
                                         : CauseKind::kOther);
  }
  return kinds;
}

bool is_wait(const Segment& segment) {
  switch (segment.purpose) {
    case Purpose::kNone:
      return segment.doing == Doing::kLock || segment.doing == Doing::kPoll ||
             segment.doing == Doing::kUnseen || segment.doing == Doing::kUnrecorded ||
             segment.doing == Doing::kNetwork;
    case Purpose::kData:
      return segment.doing == Doing::kLock || segment.doing == Doing::kPoll ||
             segment.doing == Doing::kUnseen || segment.doing == Doing::kSleep;
    default:
      return false;
  }
}

namespace {

// When the wait began that takes half of a thread's life and after which it does little: it gave
// all work to others, and joins them.
int64_t handed_over(const Work& work) {
  const std::vector<Segment>& all = work.segments;
  if (all.empty()) return INT64_MAX;
  const int64_t begin_ns = std::max(work.time->started_ns, all.front().begin_ns);
  const int64_t life_ns = all.back().end_ns - begin_ns;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].row == kNone || !is_wait(all[i])) continue;
    size_t last = i;  // one call may be cut by losing the core inside
    while (last + 1 < all.size() && all[last + 1].row == all[i].row) ++last;
    const int64_t after_ns = all.back().end_ns - all[last].end_ns;
    if ((all[last].end_ns - all[i].begin_ns) * 2 >= life_ns && after_ns * 10 <= life_ns) {
      return all[i].begin_ns;
    }
    i = last;
  }
  return INT64_MAX;
}

}  // namespace

Result<JobTime> own_time(const View& view, const Job& job) {
  JobTime out;
  StackMeaning meaning(view);
  out.drivers.reserve(job.drivers.size());
  std::vector<Work> works;
  works.reserve(job.drivers.size());
  for (const DriverPlan& plan : job.drivers) {
    out.drivers.push_back({.plan = plan});
    works.push_back({.time = &out.drivers.back()});
    Work& work = works.back();
    if (plan.kind == DriverKind::kAccelerator) {
      work.segments = device_segments(view, plan);
    } else {
      std::vector<Save> saves = saves_of(view, plan.track, true);
      read_driver(view, meaning, saves, work);
      SaveMarker marker(std::move(saves));
      for (Segment& segment : work.segments) marker.mark(segment);
    }
    for (size_t i = 0; i < work.segments.size(); ++i) {
      const Segment& segment = work.segments[i];
      if (segment.doing == Doing::kReady) work.ready.emplace_back(segment.begin_ns, segment.end_ns);
      if (is_wait(segment)) {
        work.waits.push_back({i, segment.begin_ns, segment.end_ns, segment.waker, {}, {}, {}});
      }
    }
    if (plan.kind == DriverKind::kThread) work.time->handed_over_ns = handed_over(work);
  }
  FB_TRY(read_helpers(view, job, works, out.helpers));
  int64_t sampled_ns = 0, preparing_ns = 0;
  for (HelperUse& use : out.helpers) {
    find_helper_function(view, meaning, use);
    sampled_ns += use.sampled_ns;
    preparing_ns += use.preparing_ns;
  }
  const double preparing_share =
      static_cast<double>(preparing_ns) / static_cast<double>(std::max<int64_t>(1, sampled_ns));
  for (Work& work : works) {
    own_driver(view, meaning, preparing_share, works.size() > 1, work);
  }
  return out;
}

}  // namespace forebay::explain
