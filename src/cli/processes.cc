#include "cli/processes.h"

#include <fmt/core.h>

#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "cli/console.h"
#include "sys/launcher.h"
#include "sys/thread.h"

namespace forebay::cli {
namespace {

constexpr double kPatienceSeconds = 10, kMeetingPatienceSeconds = 5;
constexpr int64_t kMeetingGraceNs = 500'000'000;
// A launcher kills the others a second after one has ended or a stop was asked for. Where all went
// well, process 0 may still be writing the result to a disk that is slow or far.
constexpr double kCloseSeconds = 4, kStoppedCloseSeconds = 0.2, kGoodCloseSeconds = 3600;
constexpr int64_t kLookNs = 1'000'000'000;

// Tells that others have not come yet. MPI waits for them inside one call, which no stop request
// reaches: this ends the process then.
class Meeting {
 public:
  explicit Meeting(const std::stop_token& asked) {
    const std::optional<sys::Launch> launch = sys::launched_by();
    if (!launch) return;
    auto thread = sys::start_thread(
        "meeting", [asked, launch](const std::stop_token& own) { watch(*launch, asked, own); });
    if (thread.ok()) thread_ = std::move(thread).take();
  }

 private:
  static void watch(const sys::Launch& launch, const std::stop_token& asked,
                    const std::stop_token& own) {
    // Nobody knows who is there, and a thousand processes need not all say the same.
    const bool talks = (launch.rank & (launch.rank - 1)) == 0;
    const std::string many = launch.size > 0 ? fmt::format("{}", launch.size) : "several";
    base::Clock& clock = base::monotonic_clock();
    std::stop_source wake;
    const std::stop_callback when_asked(asked, [&wake] { wake.request_stop(); });
    const std::stop_callback when_met(own, [&wake] { wake.request_stop(); });
    double waited = 0, seconds = kMeetingPatienceSeconds;
    while (clock.sleep_until_ns(clock.now_ns() + static_cast<int64_t>(seconds * 1e9),
                                wake.get_token())) {
      waited += seconds;
      seconds = waited;
      if (talks)
        talk(
            fmt::format("forebay: rank {} has been waiting {:.0f} s for the other processes to "
                        "call MPI_Init ({} announced by {}): does each of them run forebay?\n",
                        launch.rank, waited, many, launch.launcher));
    }
    if (own.stop_requested() || !clock.sleep_until_ns(clock.now_ns() + kMeetingGraceNs, own))
      return;
    if (talks) talk("forebay: stopped while waiting for the other processes\n");
    sys::exit_now(kExitInterrupted);
  }

  std::jthread thread_;
};

// Names whoever the others wait for.
class Watch {
 public:
  explicit Watch(const cluster::World& world) {
    auto thread = sys::start_thread("watch", [&world](const std::stop_token& own) {
      base::Clock& clock = base::monotonic_clock();
      std::string named;
      double seconds = kPatienceSeconds;
      while (clock.sleep_until_ns(clock.now_ns() + kLookNs, own)) {
        const std::string late = world.waits_for(seconds);
        if (late.empty()) {
          if (world.waits_for(0).empty()) seconds = kPatienceSeconds;
          continue;
        }
        talk(fmt::format("forebay: {} has been waiting {:.0f} s for {}\n",
                         cluster::name_of(world, world.rank()), seconds, late));
        seconds *= 2;
      }
    });
    if (thread.ok()) thread_ = std::move(thread).take();
  }

 private:
  std::jthread thread_;
};

// Some errors are of all processes and name one already.
std::string with_origin(const cluster::World& world, const std::string& message) {
  if (message.starts_with("rank ")) return message;
  return cluster::name_of(world, world.rank()) + ": " + message;
}

}  // namespace

Result<int> with_processes(std::stop_token stop,
                           const std::function<Result<int>(cluster::World& world)>& body) {
  Result<std::unique_ptr<cluster::World>> joined = [&] {
    const Meeting meeting(stop);
    return cluster::join_world(stop);
  }();
  const std::unique_ptr<cluster::World> world = FB_TRY(std::move(joined));
  if (world->size() == 1) return body(*world);
  Result<int> code = Error{};
  {
    const Watch watch(*world);
    code = body(*world);
  }
  if (!code.ok()) world->fail(code.error());
  const bool is_stopped = !code.ok() && code.error().code == ErrorCode::kCancelled;
  const bool heard = world->close(code.ok()    ? kGoodCloseSeconds
                                  : is_stopped ? kStoppedCloseSeconds
                                               : kCloseSeconds);
  if (code.ok()) return code;
  if (!speaks(*world) && heard) return exit_code_of(code.error());
  return Error{code.error().code, with_origin(*world, code.error().message)};
}

bool is_first_launched() {
  const std::optional<sys::Launch> launch = sys::launched_by();
  return !launch || launch->rank == 0;
}

void leave_and_exit(cluster::World& world, const std::string& error, int code) {
  const bool heard = world.size() == 1 ||
                     world.close(code == kExitInterrupted ? kStoppedCloseSeconds : kCloseSeconds);
  if (!error.empty() && (speaks(world) || !heard))
    talk(fmt::format("forebay: {}\n", world.size() == 1 ? error : with_origin(world, error)));
  sys::exit_now(code);
}

}  // namespace forebay::cli
