// Records one span from construction to destruction, or nothing when there is no recorder.
//
// One thread. The recorder and the clock must outlive the span.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "trace/recorder.h"

namespace forebay::trace {

class ScopedSpan {
 public:
  // `recorder` may be null: then neither the clock nor the recorder is touched.
  ScopedSpan(Recorder* recorder, const base::Clock& clock, int track, int name, int64_t value = -1)
      : recorder_(recorder), clock_(clock), track_(track), name_(name), value_(value) {
    if (recorder_ != nullptr) start_ns_ = clock_.now_ns();
  }
  ~ScopedSpan() {
    if (recorder_ != nullptr) recorder_->span(track_, name_, start_ns_, clock_.now_ns(), value_);
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

  void set_value(int64_t value) { value_ = value; }

 private:
  Recorder* recorder_;
  const base::Clock& clock_;
  int track_, name_;
  int64_t value_;
  int64_t start_ns_ = 0;
};

// As Recorder::counter; nothing when there is no recorder.
inline void count(Recorder* recorder, int track, int name, int64_t at_ns, double value) {
  if (recorder != nullptr) recorder->counter(track, name, at_ns, value);
}

}  // namespace forebay::trace
