#include "cli/processes.h"

#include <fmt/core.h>

#include <string>
#include <thread>

#include "base/clock.h"
#include "cli/console.h"
#include "sys/thread.h"

namespace forebay::cli {
namespace {

constexpr double kPatienceSeconds = 10;
// A launcher kills the others a second after one has ended or a stop was asked for.
constexpr double kCloseSeconds = 4, kStoppedCloseSeconds = 0.2;
constexpr int64_t kLookNs = 1'000'000'000;

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
  const std::unique_ptr<cluster::World> world = FB_TRY(cluster::join_world(stop));
  if (world->size() == 1) return body(*world);
  Result<int> code = Error{};
  {
    const Watch watch(*world);
    code = body(*world);
  }
  if (!code.ok()) world->fail(code.error());
  const bool is_stopped = !code.ok() && code.error().code == ErrorCode::kCancelled;
  const bool heard = world->close(is_stopped ? kStoppedCloseSeconds : kCloseSeconds);
  if (code.ok()) return code;
  if (!speaks(*world) && heard) return exit_code_of(code.error());
  return Error{code.error().code, with_origin(*world, code.error().message)};
}

void leave_and_exit(cluster::World& world, const std::string& error, int code) {
  const bool heard = world.size() == 1 ||
                     world.close(code == kExitInterrupted ? kStoppedCloseSeconds : kCloseSeconds);
  if (!error.empty() && (speaks(world) || !heard))
    talk(fmt::format("forebay: {}\n", world.size() == 1 ? error : with_origin(world, error)));
  sys::exit_now(code);
}

}  // namespace forebay::cli
