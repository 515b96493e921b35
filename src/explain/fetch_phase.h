// The short stretches on a CPU between the calls of a thread that fetches: the loop around the
// calls, the way into and out of the kernel, the CPU's part of a page fault. They are fetching, as
// the program itself would count them.
//
// One per walk of a thread; not to be shared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "explain/activity.h"

namespace forebay::explain {

// Holds the segments of a phase of calls until it is known what lies between them, then hands all
// on in order: a stretch between two calls is given what the call before it does.
class FetchPhase {
 public:
  // `with_network`: calls on sockets belong to a phase too.
  explicit FetchPhase(bool with_network) : with_network_(with_network) { held_.reserve(kHeld); }

  // `give(const Segment&)` gets this segment and those held before it, now or later.
  template <class Give>
  void take(const Segment& segment, Give&& give) {
    const int64_t ns = segment.end_ns - segment.begin_ns;
    if (fetches(segment)) {
      calls_ns_ += ns;
      gaps_ns_ += std::exchange(last_gap_ns_, 0);
      held_.push_back(segment);
      if (held_.size() < kHeld) return;
      held_.pop_back();  // the next stretch lies between it and another call
      end(give, true);
      held_.push_back(segment);
      calls_ns_ = ns;
      return;
    }
    const bool follows_call = !held_.empty() && fetches(held_.back());
    if (follows_call && is_gap(segment) && ns <= kGapNs) {
      last_gap_ns_ = std::max<int64_t>(0, ns - kCallNs);
      held_.push_back(segment);
      return;
    }
    end(give);
    give(segment);
  }

  // What is held goes on: the thread ended, or a sample has to come after it.
  template <class Give>
  void end(Give&& give, bool is_full = false) {
    const bool is_loop = gaps_ns_ <= calls_ns_;
    for (size_t i = 0; i < held_.size(); ++i) {
      const bool is_between = i > 0 && (i + 1 < held_.size() || is_full);
      if (is_loop && is_between && !fetches(held_[i])) {
        held_[i].doing = held_[i - 1].doing;
        held_[i].row = held_[i - 1].row;
      }
      give(held_[i]);
    }
    held_.clear();
    calls_ns_ = gaps_ns_ = last_gap_ns_ = 0;
  }

 private:
  // Longer is work on what was read. Measured: 1 to 2 us around calls in C, 5 us around page
  // faults, up to 8 us in Python.
  static constexpr int64_t kGapNs = 10'000;
  // Of a stretch, what any call costs its caller and its observer. Together the stretches may not
  // take longer than the calls, without this: then it is a loop that works and reads a little.
  static constexpr int64_t kCallNs = 2'000;
  static constexpr size_t kHeld = 64;

  bool fetches(const Segment& segment) const {
    if (segment.purpose != Purpose::kNone && segment.purpose != Purpose::kData &&
        segment.purpose != Purpose::kFetch) {
      return false;
    }
    return segment.doing == Doing::kRead || segment.doing == Doing::kMetadata ||
           segment.doing == Doing::kFault || (with_network_ && segment.doing == Doing::kNetwork);
  }
  static bool is_gap(const Segment& segment) {
    return segment.doing == Doing::kOnCpu && segment.row == kNone &&
           (segment.purpose == Purpose::kNone || segment.purpose == Purpose::kData ||
            segment.purpose == Purpose::kFetch);
  }

  const bool with_network_;
  std::vector<Segment> held_;
  int64_t calls_ns_ = 0, gaps_ns_ = 0, last_gap_ns_ = 0;
};

}  // namespace forebay::explain
