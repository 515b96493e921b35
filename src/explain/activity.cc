#include "explain/activity.h"

namespace forebay::explain {

using trace::Category;
using trace::EventKind;
using trace::kNoValue;

ActivityWalk::ActivityWalk(const View& view, trace::TrackId track)
    : view_(view),
      track_(track),
      rows_(view.recording().rows(track)),
      basis_(view.basis_of(track)) {
  const trace::Recording& recording = view.recording();
  files_ = view.column(view.keys().file, track);
  reasons_ = view.column(view.keys().reason, track);
  wakers_ = view.column(view.keys().waker, track);
  const auto totals = view.column(view.keys().total_ns, track);
  at_ = last_end_ = INT64_MIN;
  for (size_t row = rows_.first; row < rows_.last; ++row) {
    const EventKind kind = recording.name(row).kind;
    if (kind == EventKind::kCounter || view.is_sum(row, track, totals)) continue;
    if (at_ == INT64_MIN) at_ = recording.start(row);
    // A sample stands for time before it.
    last_end_ =
        std::max(last_end_, kind == EventKind::kSample ? recording.start(row) : recording.end(row));
  }
  // The scheduler and samples show how long a thread ran on.
  if (at_ != INT64_MIN && (basis_ == Basis::kCalls || basis_ == Basis::kUsage)) {
    last_end_ = std::max(last_end_, view.lives_until(track).value_or(last_end_));
  }
  if (basis_ == Basis::kSamples) period_ = view.sample_period(view.process_of(track));
  if (basis_ == Basis::kUsage) use_ = CpuUse(view, track);
  if (basis_ == Basis::kScheduler) switch_ns_ = switch_ns(view, track);
}

void ActivityWalk::open(size_t row) {
  const trace::Recording& recording = view_.recording();
  const NameClass& name = view_.name_class(recording.name_id(row));
  const size_t index = row - rows_.first;
  Segment what = open_.empty() ? Segment{} : open_.back().what;
  if (name.purpose != Purpose::kNone) what.purpose = name.purpose;
  what.is_covered = what.is_covered || name.is_activity || name.purpose != Purpose::kNone;
  what.is_operator = what.is_operator || name.is_operator;
  if (name.is_by_reason) {
    const int64_t reason = at(reasons_, index);
    const Doing why = reason == trace::kNoValue
                          ? Doing::kUnseen
                          : doing_of_reason(view_.words().text(static_cast<uint32_t>(reason)));
    // Inside a call the call says more than the scheduler does.
    if (what.row == kNone) {
      what.doing = why;
      what.row = static_cast<uint32_t>(row);
    }
    const int64_t waker = at(wakers_, index);
    if (waker > 0) what.waker = view_.thread_by_tid(waker, track_);
  } else if (!name.is_transparent) {
    what.doing = name.doing;
    what.row = static_cast<uint32_t>(row);
    const FileClass file = view_.class_of_file(at(files_, index));
    if (what.doing == Doing::kRead || what.doing == Doing::kWrite ||
        what.doing == Doing::kNetwork) {
      // Reading a pipe is waiting for whoever writes to it.
      if (file == FileClass::kPipe) what.doing = Doing::kPoll;
      if (file == FileClass::kSocket) what.doing = Doing::kNetwork;
      // A recorder that knows files by name gives none to what has none.
      const bool is_nameless = !files_.empty() && at(files_, index) == trace::kNoValue;
      if (is_nameless && what.doing != Doing::kNetwork) what.doing = Doing::kPoll;
    }
  }
  const int64_t end = recording.end(row) - (name.is_by_reason ? switch_ns_ : 0);
  if (end > recording.start(row)) open_.push_back({end, what});
}

}  // namespace forebay::explain
