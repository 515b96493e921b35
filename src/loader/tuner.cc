#include "loader/tuner.h"

#include <algorithm>

namespace forebay::loader {
namespace {

constexpr double kWaitShare = 0.05;  // a consumer that waits less is the bottleneck itself
constexpr double kGain = 0.05;       // less is noise
constexpr double kFullFetch = 0.6, kFullDecode = 0.7;  // of a stage that limits
constexpr double kLoss = 0.2;  // more shows beyond doubt that less is too little
constexpr int kBackoffFirst = 8, kBackoffMax = 256;
constexpr int64_t kWindowNs = 150'000'000;

}  // namespace

TunerSettings Tuner::next(const TunerWindow& window) {
  const auto ns = static_cast<double>(std::max<int64_t>(1, window.ns));
  const double rate = static_cast<double>(window.samples) / ns;
  const double wait_share = static_cast<double>(window.consumer_wait_ns) / ns;
  if (window.reads > 0) {
    // Far reads show what a change has done only after they have come back.
    const int64_t read_ns = window.fetch_busy_ns / static_cast<int64_t>(window.reads);
    window_ns_ = std::clamp(2 * read_ns, kWindowNs, kWindowNsMax);
  }
  if (is_settling_) {
    is_settling_ = false;
    return now_;
  }
  for (auto& holds : hold_)
    for (int& hold : holds) hold = std::max(0, hold - 1);
  if (trial_ != kKnobs) judge(rate, wait_share);
  if (!is_settling_ && wait_share > kWaitShare) begin_trial(window, rate);
  return now_;
}

void Tuner::judge(double rate, double wait_share) {
  const Knob knob = trial_;
  trial_ = kKnobs;
  int& backoff = backoff_[direction_][knob];
  if (rate > rate_before_ * (1 + kGain)) {
    backoff = kBackoffFirst;
    // The way back is known to be worse.
    int& back = hold_[direction_ == kUp ? kDown : kUp][knob];
    back = std::max(back, 2 * kBackoffFirst);
    return;
  }
  if (wait_share <= kWaitShare) return;  // the consumer has all it asks for
  setting(knob) = before_;
  if (direction_ == kDown && rate < rate_before_ * (1 - kLoss)) backoff = kBackoffMax;
  hold_[direction_][knob] = backoff;
  backoff = std::min(kBackoffMax, 2 * backoff);
  is_settling_ = true;
}

void Tuner::begin_trial(const TunerWindow& window, double rate) {
  const auto ns = static_cast<double>(std::max<int64_t>(1, window.ns));
  const double fetch = static_cast<double>(window.fetch_busy_ns) / ns / now_.fetch_depth;
  const double decode = static_cast<double>(window.decode_busy_ns) / ns / now_.decode_threads;
  const bool may_fetch = fetch >= kFullFetch && can_rise(kFetch);
  const bool may_decode = decode >= kFullDecode && can_rise(kDecode);
  if (may_fetch || may_decode)
    return move(may_decode && (!may_fetch || decode >= fetch) ? kDecode : kFetch, kUp, rate);
  // Threads that lack a CPU look as busy as those that have one: only trying tells. Reads do not.
  if (can_fall(kDecode)) return move(kDecode, kDown, rate);
  if (fetch < kFullFetch && can_fall(kFetch)) move(kFetch, kDown, rate);
}

void Tuner::move(Knob knob, Direction direction, double rate) {
  trial_ = knob;
  direction_ = direction;
  before_ = setting(knob);
  rate_before_ = rate;
  // Depth doubles: far stores need hundreds. Threads are few and each takes a CPU.
  const int up = knob == kFetch ? before_ : std::max(1, before_ / 2);
  const int down = knob == kFetch ? before_ / 2 : std::max(1, before_ / 4);
  setting(knob) =
      direction == kUp ? std::min(before_ + up, max(knob)) : std::max(before_ - down, min(knob));
  is_settling_ = true;
}

}  // namespace forebay::loader
