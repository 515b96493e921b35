#include "checkpoint/pace.h"

#include <algorithm>

#include "base/error.h"
#include "base/waiting.h"

namespace forebay::checkpoint {
namespace {

// A loop that always waits must not keep checkpoints from becoming safe.
constexpr int64_t kGiveWayNs = 50'000'000, kLookNs = 1'000'000;
// What may go at once: so much time's worth of the bandwidth.
constexpr int64_t kBurstNs = 100'000'000;

}  // namespace

Status Pace::admit(uint64_t bytes, const std::stop_token& stop) {
  int64_t now_ns = clock_.now_ns();
  const int64_t patience_ns = now_ns + kGiveWayNs;
  bool goes_on = !stop.stop_requested();
  while (goes_on && now_ns < patience_ns && base::is_somebody_waiting()) {
    goes_on = clock_.sleep_until_ns(now_ns + kLookNs, stop);
    now_ns = clock_.now_ns();
  }
  if (goes_on && bytes_per_second_max_ > 0) {
    const double seconds = static_cast<double>(bytes) / bytes_per_second_max_;
    free_ns_ = std::max(free_ns_, now_ns) + static_cast<int64_t>(seconds * 1e9);
    const int64_t due_ns = free_ns_ - kBurstNs;
    goes_on = due_ns <= now_ns || clock_.sleep_until_ns(due_ns, stop);
  }
  if (goes_on) return {};
  return fail(ErrorCode::kCancelled, "stopped while a checkpoint was being copied");
}

}  // namespace forebay::checkpoint
