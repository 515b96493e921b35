// What a thread did at each instant: its nested spans, flattened.
//
// Pure functions of a view; safe to call from any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "explain/cpu_use.h"
#include "explain/view.h"

namespace forebay::explain {

// A stretch of one thread's time with one thing done in it.
struct Segment {
  int64_t begin_ns = 0, end_ns = 0;
  Doing doing = Doing::kOnCpu;
  Purpose purpose = Purpose::kNone;
  uint32_t row = kNone;      // the innermost span that says what is done
  uint32_t waker = kNone;    // thread track that ended it, where known
  bool is_covered = false;   // a span says that something is done: an operator, a function, a call
  bool is_operator = false;  // inside an operator of a framework
};

// Walks one thread's rows and gives its segments in order, without gaps from its first event to the
// end of its last. Samples are given as they come, between segments.
class ActivityWalk {
 public:
  ActivityWalk(const View& view, trace::TrackId track);

  // `segment(const Segment&)` and `sample(size_t row)`; a sample ends the segment before it.
  template <class OnSegment, class OnSample>
  void run(OnSegment&& segment, OnSample&& sample) {
    const auto emit = [&](int64_t until) { emit_until(until, segment); };
    for (size_t row = rows_.first; row < rows_.last; ++row) {
      const trace::Name& name = view_.recording().name(row);
      const int64_t start = view_.recording().start(row);
      if (name.kind == trace::EventKind::kSample) {
        emit(start);
        sampled_at_ = start;
        sample(row);
      } else if (name.kind == trace::EventKind::kSpan && !is_step(row)) {
        emit(start);
        open(row);
      }
    }
    emit(last_end_);
  }

 private:
  struct Open {
    int64_t end_ns;
    Segment what;
  };
  bool is_step(size_t row) const {
    return view_.recording().name(row).category == trace::Category::kStep;
  }
  void open(size_t row);

  template <class OnSegment>
  void emit_until(int64_t until, OnSegment& segment) {
    while (!open_.empty() && open_.back().end_ns <= until) {
      give(open_.back().what, open_.back().end_ns, segment);
      open_.pop_back();
    }
    give(open_.empty() ? Segment{} : open_.back().what, until, segment);
  }

  template <class OnSegment>
  void give(Segment what, int64_t until, OnSegment& segment) {
    if (until <= at_) return;
    what.begin_ns = at_;
    what.end_ns = until;
    at_ = until;
    if (what.doing != Doing::kOnCpu || what.row != kNone) {
      segment(what);
    } else if (basis_ == Basis::kSamples) {
      give_sampled(what, segment);
    } else if (basis_ == Basis::kUsage) {
      give_used(what, segment);
    } else {
      if (basis_ == Basis::kNothing && !what.is_covered) what.doing = Doing::kUnrecorded;
      segment(what);
    }
  }

  // Running is believed for three periods without a sample; longer stretches were spent in
  // something that no collector saw.
  template <class OnSegment>
  void give_sampled(const Segment& what, OnSegment& segment) {
    if (what.end_ns - std::max(sampled_at_, what.begin_ns) <= 3 * period_ ||
        what.end_ns - what.begin_ns <= 3 * period_) {
      segment(what);
      return;
    }
    Segment piece = what;
    piece.end_ns = what.begin_ns + period_;
    segment(piece);
    piece.begin_ns = piece.end_ns;
    piece.end_ns = what.end_ns - period_;
    piece.doing = Doing::kUnseen;
    segment(piece);
    piece.begin_ns = piece.end_ns;
    piece.end_ns = what.end_ns;
    piece.doing = Doing::kOnCpu;
    segment(piece);
  }

  // By the counters of its CPU time; when in a reading it ran they do not say.
  template <class OnSegment>
  void give_used(const Segment& what, OnSegment& segment) {
    use_.split(what.begin_ns, what.end_ns, [&](int64_t begin_ns, int64_t end_ns, Doing doing) {
      Segment piece = what;
      piece.begin_ns = begin_ns;
      piece.end_ns = end_ns;
      piece.doing = doing;
      segment(piece);
    });
  }

  const View& view_;
  const trace::TrackId track_;
  const trace::Recording::Rows rows_;
  std::span<const int64_t> files_ = {}, reasons_ = {}, wakers_ = {};
  std::vector<Open> open_ = {};
  int64_t at_ = 0, last_end_ = 0;
  const Basis basis_;
  int64_t period_ = 0;  // between samples
  CpuUse use_ = {};
  int64_t switch_ns_ = 0;  // by which waits end earlier than was recorded
  int64_t sampled_at_ = INT64_MIN;
};

}  // namespace forebay::explain
