#include "emulate/runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "cluster/world.h"
#include "emulate/accelerator.h"
#include "emulate/checkpointing.h"
#include "emulate/fleet.h"
#include "emulate/gathering.h"
#include "emulate/metrics.h"
#include "emulate/page_cache_control.h"
#include "emulate/preparation.h"
#include "emulate/reading_check.h"
#include "emulate/rules.h"
#include "emulate/run_state.h"
#include "emulate/schedule.h"
#include "emulate/verdict.h"
#include "sys/page_cache.h"
#include "sys/process.h"

namespace forebay::emulate {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

class Run {
 public:
  Run(const RunRequest& request, cluster::World& world, Observer& observer, std::stop_token stop)
      : run_(request, world, observer, std::move(stop)),
        gathering_(run_),
        saves_(run_),
        fleet_(run_) {}

  Status prepare() {
    run_.start_ns = run_.clock.now_ns();
    run_.start_usage = sys::process_usage();
    sys::reset_peak_resident();
    run_.result.started_at = utc_now();
    run_.result.started_unix_seconds = sys::unix_seconds();
    if (run_.workload.workflow.is_checkpoint_only()) {
      FB_TRY(prepare_without_data(run_));
      return saves_.prepare();
    }
    FB_TRY(emulate::prepare(run_));
    if (run_.workload.workflow.checkpoint) FB_TRY(saves_.prepare());
    return fleet_.open_engines();
  }

  RunResult go() {
    run_.observer.on_start(run_.result);
    if (run_.workload.workflow.is_checkpoint_only()) {
      finish(saves_.save_and_restore());
      run_.observer.on_end(run_.result);
      return std::move(run_.result);
    }
    Status status;
    if (run_.options.cache == "warm") status = warm_up();
    if (status.ok()) status = run_.all_here();
    CheckpointSchedule due(run_.workload);
    EvaluationSchedule evaluations(run_.workload);
    for (uint64_t epoch = 1; status.ok() && epoch <= run_.workload.train.epochs; ++epoch) {
      status = train_epoch(epoch, due);
      if (status.ok() && due.is_due_after_epoch(epoch)) status = saves_.save_after_epoch(epoch);
      if (status.ok() && evaluations.is_due_after_epoch(epoch)) status = evaluate(epoch);
    }
    if (status.ok() && run_.workload.workflow.checkpoint) status = saves_.finish_drains();
    finish(status);
    run_.observer.on_end(run_.result);
    return std::move(run_.result);
  }

 private:
  Status warm_up() {
    FB_TRY(warm_up(run_.train));
    return run_.valid.index ? warm_up(run_.valid) : Status();
  }

  // The page cache belongs to the host: one of its processes does the work.
  Status warm_up(const DataSource& source) {
    if (!run_.is_first_on_host()) return {};
    run_.observer.on_note(fmt::format("reading {} files into the page cache", source.facts.files));
    const CacheState state = FB_TRY(make_warm(*source.index, run_.options.data, run_.stop));
    if (state.is_known && state.cached_bytes < state.bytes)
      run_.result.warnings.push_back(
          fmt::format("only {} of {} stayed in the page cache after warming it",
                      base::format_bytes(static_cast<double>(state.cached_bytes)),
                      base::format_bytes(static_cast<double>(state.bytes))));
    return {};
  }

  Status cool_down(const DataSource& source) {
    if (run_.options.cache != "cold" || sys::is_memory_file_system(run_.options.data)) return {};
    if (!run_.is_first_on_host()) return run_.all_here();
    run_.observer.on_note(fmt::format("evicting {} files from the page cache", source.facts.files));
    const CacheState state = FB_TRY(make_cold(*source.index, run_.options.data, run_.stop));
    if (!state.is_known)
      run_.result.warnings.push_back("cache state unknown: the kernel does not tell this user");
    else if (state.cached_bytes > 0)
      run_.result.warnings.push_back(
          fmt::format("{} stayed in the page cache although --cache cold evicted it",
                      base::format_bytes(static_cast<double>(state.cached_bytes))));
    return run_.all_here();  // nobody reads ahead while a page goes
  }

  Status train_epoch(uint64_t epoch, CheckpointSchedule& due) {
    FB_TRY(cool_down(run_.train));
    EpochPlan plan;
    plan.epoch = epoch - 1;
    plan.steps = run_.plan.steps;
    plan.included = included_steps(plan.steps, run_.workload.output.exclude_start_steps,
                                   run_.workload.output.exclude_end_steps);
    plan.compute = run_.workload.train.computation_time;
    plan.seed = run_.workload.train.seed;
    plan.has_barrier = run_.options.barrier;
    plan.run_start_ns = run_.start_ns;
    if (due.has_step_saves()) {
      plan.checkpoint_due = [&due](uint64_t step) { return due.is_due_after_step(step + 1); };
      plan.save_checkpoint = [this, epoch](uint64_t step) { return saves_.save(epoch, step + 1); };
    }
    return run_on_all(std::move(plan), false, run_.workload.reader.batch_size);
  }

  Status evaluate(uint64_t epoch) {
    FB_TRY(cool_down(run_.valid));
    FB_TRY(fleet_.begin_evaluation());
    EpochPlan plan;
    plan.epoch = epoch - 1;
    plan.steps = fleet_.steps();
    plan.included = {0, plan.steps};
    plan.compute = run_.workload.evaluation.eval_time;
    plan.seed = run_.workload.train.seed + 1;
    plan.has_barrier = false;
    plan.run_start_ns = run_.start_ns;
    Status status = run_on_all(std::move(plan), true, run_.workload.reader.batch_size_eval);
    fleet_.end_evaluation();
    return status;
  }

  // Runs one epoch on all accelerators and adds its result, also when it ended early.
  Status run_on_all(EpochPlan plan, bool is_evaluation, uint64_t batch) {
    const EpochBasis basis{plan.included, plan.steps, batch, !plan.compute.is_zero(),
                           plan.has_barrier};
    EpochPart part;
    Status ended = fleet_.run(std::move(plan), is_evaluation, part);
    return gathering_.add(std::move(part), basis, std::move(ended));
  }

  void finish(Status status) {
    run_.mine.read_retries += saves_.retries();
    if (run_.store) {
      fleet_.take_engine_figures();
      run_.mine.read_retries += run_.store->other_retries();
      const std::string fallback = run_.store->capabilities().fallback_reason;
      if (!fallback.empty() &&
          std::count(run_.result.warnings.begin(), run_.result.warnings.end(), fallback) == 0)
        run_.result.warnings.push_back(fallback);  // only reads showed it
    }
    gathering_.finish(std::move(status));
    run_.result.ended_at = utc_now();
    run_.result.wall_seconds = run_.seconds_since_start(run_.clock.now_ns());
    summarise_run(run_.result);
    if (std::string unread = describe_unread_bytes(run_.result); !unread.empty())
      run_.result.warnings.push_back(std::move(unread));
    run_.result.verdict = judge(run_.result);
    if (const auto rules = rule_set_from_name(run_.options.rules))
      run_.result.rules = check_rules(run_.result, *rules);
  }

  RunState run_;
  Gathering gathering_;
  Checkpointing saves_;
  Fleet fleet_;  // engines go before what they read from
};

}  // namespace

Result<RunResult> run(const RunRequest& request, Observer& observer, std::stop_token stop) {
  const std::unique_ptr<cluster::World> alone =
      request.world == nullptr ? cluster::make_alone() : nullptr;
  Run run(request, alone ? *alone : *request.world, observer, std::move(stop));
  FB_TRY(run.prepare());
  return run.go();
}

}  // namespace forebay::emulate
