#include "record/thinning.h"

#include <algorithm>

namespace forebay::record {

uint64_t Thinning::window_budget() const {
  const double window = static_cast<double>(max_) * static_cast<double>(kThinWindowNs) / 1e9;
  return std::max<uint64_t>(static_cast<uint64_t>(window) / shares_, 1);
}

void Thinning::update(uint64_t kept, int64_t period_ns) {
  if (period_ns <= 0) return;
  const double a_second = static_cast<double>(kept) * 1e9 / static_cast<double>(period_ns);
  const auto limit = static_cast<double>(max_);
  // A thread's mask halves its events until they fit, so up to twice the budget may come.
  if (a_second > limit) {
    calm_ = 0;
    if (shares_ < kSharesMax && window_budget() > 1) {
      shares_ *= 2;
    } else {  // what is left are calls that took longer
      below_ns_ = std::min<uint64_t>(below_ns_ * 4, uint64_t{1} << 40);
    }
  } else if (a_second >= limit / 4) {
    calm_ = 0;
  } else if (++calm_ >= 8) {
    // Slowly back, or a program with phases would be let in and thinned by turns.
    calm_ = 0;
    if (below_ns_ > kBelow) {
      below_ns_ /= 4;
    } else if (shares_ > 1) {
      shares_ /= 2;
    }
  }
}

}  // namespace forebay::record
