#include "cli/stop_deadline.h"

#include <fmt/core.h>

#include <limits>
#include <utility>

#include "base/clock.h"
#include "cli/console.h"
#include "cli/result_folder.h"
#include "cluster/world.h"
#include "sys/thread.h"

namespace forebay::cli {
namespace {

constexpr int64_t kGraceNs = 700'000'000;
// Others then still tell what they have measured.
constexpr int64_t kFailureGraceNs = 6'000'000'000;
constexpr int64_t kForeverNs = std::numeric_limits<int64_t>::max() / 2;

}  // namespace

StopDeadline::StopDeadline(std::stop_token asked, const ResultFolder* folder,
                           const cluster::World* world) {
  auto thread = sys::start_thread(
      "stop-deadline",
      [this, asked, folder, world](std::stop_token own) { watch(asked, own, folder, world); });
  if (thread.ok()) thread_ = std::move(thread).take();
}

void StopDeadline::watch(const std::stop_token& asked, const std::stop_token& own,
                         const ResultFolder* folder, const cluster::World* world) {
  base::Clock& clock = base::monotonic_clock();
  const std::stop_callback forward(asked, [this] { wake_.request_stop(); });
  const std::stop_callback end(own, [this] { wake_.request_stop(); });
  const std::stop_callback fail(world == nullptr ? std::stop_token() : world->failed(),
                                [this] { wake_.request_stop(); });
  clock.sleep_until_ns(kForeverNs, wake_.get_token());
  const int64_t grace_ns = asked.stop_requested() ? kGraceNs : kFailureGraceNs;
  if (own.stop_requested() || !clock.sleep_until_ns(clock.now_ns() + grace_ns, own)) return;
  if (is_held_.exchange(true)) return;
  if (folder != nullptr) discard_result_folder(*folder);
  if (!asked.stop_requested() && world->failure()) {
    talk(fmt::format("forebay: {}\n", world->failure()->message));
    sys::exit_now(kExitFailed);
  }
  talk(fmt::format("forebay: stopped while the storage did not answer{}\n",
                   folder != nullptr ? "; nothing more was measured" : ""));
  sys::exit_now(kExitInterrupted);
}

void StopDeadline::hold() {
  if (is_held_.exchange(true)) base::monotonic_clock().sleep_until_ns(kForeverNs, {});
}

}  // namespace forebay::cli
