#include "emulate/run_state.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace forebay::emulate {

EndOfRun::EndOfRun(std::stop_token asked, const cluster::World& world)
    : when_asked_(std::move(asked), [this] { end_.request_stop(); }),
      when_failed_(world.failed(), [this] { end_.request_stop(); }) {}

RunState::RunState(const RunRequest& asked_for, cluster::World& processes, Observer& told,
                   std::stop_token asked)
    : request(asked_for),
      workload(asked_for.resolved.workload),
      options(asked_for.options),
      world(processes),
      observer(told),
      end(std::move(asked), world),
      stop(end.token()),
      clock(base::monotonic_clock()) {
  result.resolved = request.resolved;
  result.options = request.options;
  result.version = request.version;
  result.command = request.command;
  result.next_base = request.next_base;
  result.warnings = request.resolved.warnings;
  result.host = sys::host();
  if (options.decode_threads == 0)
    result.options.decode_threads = static_cast<int>(
        std::max<uint64_t>({1, workload.reader.read_threads, workload.reader.computation_threads}));
}

bool RunState::is_first_on_host() const {
  return cluster::first_on_host(world, world.rank()) == world.rank();
}

int RunState::fetch_depth() const {
  return static_cast<int>(std::max<uint64_t>(1, workload.reader.read_threads));
}

double RunState::seconds_since_start(int64_t moment_ns) const {
  return static_cast<double>(moment_ns - start_ns) * 1e-9;
}

void RunState::adopt(const std::vector<std::string>& warnings) {
  result.warnings.insert(result.warnings.end(), warnings.begin(), warnings.end());
}

Status RunState::all_here() {
  FB_TRY(world.meet(clock.now_ns(), stop));
  return {};
}

}  // namespace forebay::emulate
