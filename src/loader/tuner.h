// Finds how many reads in flight and how many decode threads a data set needs while it is read: one
// step at a time, kept only when more samples came of it.
//
//   window of work --> is the consumer waiting? --> which stage is full? --> one step up, a trial
//                                                   none can rise        --> one step down, a trial
//                                                   next window: better? keep : fall back, hold off
//
// Less is tried because threads take CPUs from each other and from the consumer.
//
// A value without clock or threads: the same windows give the same settings.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace forebay::loader {

struct TunerSettings {
  int fetch_depth = 1, decode_threads = 1;
  bool operator==(const TunerSettings&) const = default;
};

// What happened since the last window.
struct TunerWindow {
  int64_t ns = 0;
  uint64_t samples = 0;          // that ended
  uint64_t reads = 0;            // that ended
  int64_t consumer_wait_ns = 0;  // next() waited
  int64_t fetch_busy_ns = 0;     // of all reads together
  int64_t decode_busy_ns = 0;    // of all threads together
};

class Tuner {
 public:
  // A setting whose `min` is its `max` stays as it is.
  Tuner(TunerSettings start, TunerSettings max, TunerSettings min = {})
      : now_(start), min_(min), max_(max) {}

  // A window should be this long, and hold some samples, before it tells anything.
  int64_t window_ns() const { return window_ns_; }
  static constexpr uint64_t kWindowSamples = 16;
  static constexpr int64_t kWindowNsMax = 2'000'000'000;

  // The settings for the next window.
  TunerSettings next(const TunerWindow& window);
  TunerSettings settings() const { return now_; }

 private:
  enum Knob : size_t { kFetch, kDecode, kKnobs };
  enum Direction : size_t { kUp, kDown, kDirections };
  template <class T>
  using Each = std::array<std::array<T, kKnobs>, kDirections>;

  void judge(double rate, double wait_share);
  void begin_trial(const TunerWindow& window, double rate);
  void move(Knob knob, Direction direction, double rate);
  int& setting(Knob knob) { return knob == kFetch ? now_.fetch_depth : now_.decode_threads; }
  int min(Knob knob) const { return knob == kFetch ? min_.fetch_depth : min_.decode_threads; }
  int max(Knob knob) const { return knob == kFetch ? max_.fetch_depth : max_.decode_threads; }
  bool can_rise(Knob knob) { return setting(knob) < max(knob) && hold_[kUp][knob] == 0; }
  bool can_fall(Knob knob) { return setting(knob) > min(knob) && hold_[kDown][knob] == 0; }

  TunerSettings now_;
  const TunerSettings min_, max_;
  int64_t window_ns_ = 150'000'000;
  bool is_settling_ = true;  // the window after a change shows both settings
  Knob trial_ = kKnobs;      // what was changed; kKnobs = nothing
  Direction direction_ = kUp;
  int before_ = 0;
  double rate_before_ = 0;
  Each<int> hold_{{{0, 0}, {8, 8}}};     // windows until it may be tried again
  Each<int> backoff_{{{8, 8}, {8, 8}}};  // the next hold
};

}  // namespace forebay::loader
