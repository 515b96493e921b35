// What the parts of one run share: what was asked for, who takes part, what was prepared, and the
// result as it grows.
//
// Belongs to the thread that called run(). While an epoch runs the accelerators' threads read it,
// and the one that saves a checkpoint adds its record while all the others wait. The request, the
// world and the observer must outlive it.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/world.h"
#include "emulate/data_source.h"
#include "emulate/epoch_part.h"
#include "emulate/progress.h"
#include "emulate/result.h"
#include "emulate/runner.h"
#include "emulate/schedule.h"
#include "forebay/result.h"
#include "storage/store.h"
#include "sys/process.h"

namespace forebay::emulate {

// Stops a run when that is asked for or another process has failed.
class EndOfRun {
 public:
  EndOfRun(std::stop_token asked, const cluster::World& world);
  std::stop_token token() const { return end_.get_token(); }

 private:
  std::stop_source end_;
  const std::stop_callback<std::function<void()>> when_asked_, when_failed_;
};

struct RunState {
  // The result then holds what the request says.
  RunState(const RunRequest& asked_for, cluster::World& processes, Observer& told,
           std::stop_token asked);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  bool is_alone() const { return world.size() == 1; }
  // It does what is to be done once per host.
  bool is_first_on_host() const;
  // Reads that each accelerator may have in flight.
  int fetch_depth() const;
  // Of a moment on this host's monotonic clock, once the processes have met.
  double seconds_since_start(int64_t moment_ns) const;
  void adopt(const std::vector<std::string>& warnings);
  // Waits for all processes. Errors as World::meet().
  Status all_here();

  const RunRequest& request;
  const workload::Workload& workload;
  const RunOptions& options;  // of this process; result.options are those of all
  cluster::World& world;
  Observer& observer;
  const EndOfRun end;
  const std::stop_token stop;  // of `end`
  base::Clock& clock;

  // --- known before the first step ---
  int64_t start_ns = 0;  // of process 0, on this host's clock
  sys::Usage start_usage;
  int first_accelerator = 0;         // of this process
  std::vector<std::string> hosts;    // by rank of the process
  std::vector<int> accelerators_of;  // the same
  std::vector<cluster::ClockOffset> offsets_at_start;
  std::string device_unknown;  // why nobody knows what devices delivered, or ""

  // --- what grows ---
  RunPart mine;  // what this process will say at the end
  RunResult result;

  // --- known before the first step, and used until the last ---
  StepPlan plan;
  std::unique_ptr<storage::Store> store;
  DataSource train, valid;  // valid.index is null without evaluation
};

}  // namespace forebay::emulate
