#include "emulate/find_max.h"

#include "base/error.h"
#include "cluster/world.h"

namespace forebay::emulate {
namespace {

struct Attempted {
  Attempt attempt;
  RunResult result;
};

Result<Attempted> attempt(RunRequest& request, int accelerators, Observer& observer,
                          std::stop_token stop, MaximumFound& found) {
  request.options.accelerators = accelerators;
  RunResult result = FB_TRY(run(request, observer, std::move(stop)));
  if (!result.error.empty()) return fail(ErrorCode::kIo, "{}", result.error);
  found.is_interrupted = result.is_interrupted;
  Attempt made;
  made.accelerators = result.options.accelerators;  // of all processes
  made.au = result.au;
  made.passed = result.verdict.outcome == Verdict::Outcome::kPass;
  made.limited_by = result.verdict.limited_by;
  made.is_cached_share_known = result.cached_share.value.has_value();
  made.cached_share = result.cached_share.value.value_or(0);
  if (!found.is_interrupted && !result.au.mean)
    return fail(ErrorCode::kInvalidArgument, "cannot judge {} accelerators: AU is not measured: {}",
                accelerators, result.au.reason);
  return Attempted{std::move(made), std::move(result)};
}

}  // namespace

Result<MaximumFound> find_max_accelerators(
    RunRequest request, int limit, Observer& observer,
    const std::function<void(const Attempt&, const RunResult&)>& on_attempt, std::stop_token stop) {
  MaximumFound found;
  int low = 0;           // passed
  int high = limit + 1;  // failed, or not to be tried
  int next = 1;
  found.stopped_by = "limit";
  while (high - low > 1) {
    const int count = next;
    Result<Attempted> tried = attempt(request, count, observer, stop, found);
    if (!tried.ok() && tried.error().code == ErrorCode::kInvalidArgument && low > 0) {
      high = count;  // the data set does not fill a step of so many
      if (found.stopped_by != "gate") found.stopped_by = "data set";
      if (high - low <= 1) break;
      next = low + (high - low) / 2;
      continue;
    }
    const Attempted done = FB_TRY(std::move(tried));
    if (found.is_interrupted) break;
    const Attempt& made = done.attempt;
    on_attempt(made, done.result);
    found.attempts.push_back(made);
    if (made.passed) {
      low = count;
    } else {
      high = count;
      found.stopped_by = "gate";
    }
    next = found.stopped_by == "gate" || low * 2 >= high ? low + (high - low) / 2 : low * 2;
  }
  found.accelerators = low * (request.world == nullptr ? 1 : request.world->size());
  return found;
}

}  // namespace forebay::emulate
