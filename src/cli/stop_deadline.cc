#include "cli/stop_deadline.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/clock.h"
#include "cli/console.h"
#include "cli/result_folder.h"
#include "cluster/world.h"
#include "storage/place.h"
#include "sys/thread.h"

namespace forebay::cli {
namespace {

// Others then still tell what they have measured.
constexpr int64_t kFailureGraceNs = 6'000'000'000;
constexpr int64_t kForeverNs = std::numeric_limits<int64_t>::max() / 4;
constexpr int64_t kTellingGraceNs = 5'000'000'000, kGivingUpGraceNs = 15'000'000'000;

}  // namespace

StopGrace work_grace(std::span<const std::string> places) {
  if (std::none_of(places.begin(), places.end(), storage::is_object_place)) return {};
  return {.ns = kGivingUpGraceNs, .loss = "uploads that were begun may be left there"};
}

StopGrace writing_grace(const ResultFolder& folder, bool is_interrupted) {
  StopGrace grace{.loss = "the result is not whole"};
  if (is_interrupted)
    grace.ns = storage::is_object_place(folder.path) ? kTellingGraceNs : kForeverNs;
  return grace;
}

StopDeadline::StopDeadline(std::stop_token asked, const ResultFolder* folder,
                           const cluster::World* world, StopGrace grace)
    : grace_(std::move(grace)) {
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
  const int64_t grace_ns = asked.stop_requested() ? grace_.ns : kFailureGraceNs;
  if (own.stop_requested() || !clock.sleep_until_ns(clock.now_ns() + grace_ns, own)) return;
  if (is_held_.exchange(true)) return;
  if (folder != nullptr) discard_result_folder(*folder);
  if (!asked.stop_requested() && world->failure()) {
    talk(fmt::format("forebay: {}\n", world->failure()->message));
    sys::exit_now(kExitFailed);
  }
  std::string losses = folder != nullptr ? "; nothing more was measured" : "";
  if (!grace_.loss.empty()) losses += "; " + grace_.loss;
  talk(fmt::format("forebay: stopped while the storage did not answer{}\n", losses));
  sys::exit_now(kExitInterrupted);
}

void StopDeadline::hold() {
  if (is_held_.exchange(true)) base::monotonic_clock().sleep_until_ns(kForeverNs, {});
}

}  // namespace forebay::cli
