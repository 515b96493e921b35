#include "emulate/differential_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "cluster/world.h"
#include "emulate/data_source.h"
#include "emulate/data_store.h"
#include "emulate/page_cache_control.h"
#include "sys/page_cache.h"

namespace forebay::emulate {
namespace {

using trace::RunKind;
using workload::Shuffle;

// What DS-Analyzer leaves out while a job warms up, where a run has steps to spare.
constexpr uint64_t kStartStepsExcluded = 5;
constexpr uint64_t kStepsPerExcluded = 5;
// A cold run that cached more, or a warm one that read more from devices, is pointed out.
constexpr double kStrayShare = 0.05;

enum class Pass { kOne, kAll, kHosts, kCold, kWarming, kWarm, kFetchCold, kFetchMemory, kPrep };

std::string_view title(Pass pass) {
  static constexpr std::array<std::string_view, 9> kTitles{"T1, one accelerator, synthetic",
                                                           "T2, all on one host, synthetic",
                                                           "T5, all hosts, synthetic",
                                                           "T3, real data, cold",
                                                           "reading the data into memory",
                                                           "T4, real data, warm",
                                                           "rate of cold fetching",
                                                           "rate of fetching from memory",
                                                           "rate of preparing"};
  return kTitles[static_cast<size_t>(pass)];
}

bool is_synthetic_pass(Pass pass) {
  return pass == Pass::kOne || pass == Pass::kAll || pass == Pass::kHosts;
}
bool is_from_memory(Pass pass) {
  return pass == Pass::kWarm || pass == Pass::kFetchMemory || pass == Pass::kPrep;
}
bool computes(Pass pass) {
  return is_synthetic_pass(pass) || pass == Pass::kCold || pass == Pass::kWarm;
}
bool prepares(Pass pass) {
  return pass == Pass::kCold || pass == Pass::kWarm || pass == Pass::kPrep;
}

std::string name_of_store(const std::string& spec) {
  return spec.substr(0, spec.find(':'));
}

// Seconds a step, mean over the accelerators, of the included steps of the last epoch.
Result<double> step_seconds(const RunResult& result) {
  const EpochResult& epoch = result.epochs.back();
  double seconds = 0;
  for (const RankEpoch& rank : epoch.ranks) seconds += rank.included_seconds;
  if (epoch.included_steps == 0 || epoch.ranks.empty())
    return fail(ErrorCode::kInvalidArgument,
                "{} steps leave none to measure: add data, or lower reader.batch_size or "
                "--accelerators",
                epoch.steps);
  return seconds / static_cast<double>(epoch.ranks.size() * epoch.included_steps);
}

class Differential {
 public:
  Differential(const RunRequest& request, const DifferentialOptions& options,
               const std::function<void(const std::string&)>& on_run, std::stop_token stop)
      : request_(request), options_(options), on_run_(on_run), stop_(std::move(stop)) {
    found_.version = request.version;
    found_.command = request.command;
    found_.workload = request.resolved.workload.name;
    found_.data = request.options.data;
    found_.storage = request.options.storage;
    found_.batch_size = request.resolved.workload.reader.batch_size;
    found_.repeats_asked = options.repeats;
  }

  Result<StallsFound> measure() {
    FB_TRY(check());
    FB_TRY(count_hosts());
    settle_states();
    FB_TRY(look_at_data());
    for (int repeat = 0; repeat < options_.repeats && !found_.is_interrupted; ++repeat)
      FB_TRY(one_round(repeat));
    finish();
    return std::move(found_);
  }

 private:
  const workload::Workload& workload() const { return request_.resolved.workload; }
  bool is_alone() const { return request_.world == nullptr || request_.world->size() == 1; }
  bool is_first() const { return is_alone() || request_.world->rank() == 0; }

  Status check() const {
    const std::string store = name_of_store(request_.options.storage);
    if (is_synthetic(workload()))
      return fail(ErrorCode::kInvalidArgument,
                  "--stalls compares real data with synthetic: reader.data_loader = synthetic "
                  "reads none");
    if (store == "null" || store == "memory")
      return fail(ErrorCode::kInvalidArgument,
                  "--stalls compares reads with and without memory: --storage {} has no data of "
                  "its own",
                  store);
    return {};
  }

  Status count_hosts() {
    found_.hosts = 1;
    if (is_alone()) return {};
    std::set<std::string> names;
    for (int rank = 0; rank < request_.world->size(); ++rank)
      names.insert(request_.world->host_of(rank));
    found_.hosts = static_cast<int>(names.size());
    return {};
  }

  // What can be cold and warm here, and how.
  void settle_states() {
    const std::string store = name_of_store(request_.options.storage);
    const std::string& data = request_.options.data;
    is_object_ = is_object_place(data);
    warm_storage_ = is_object_ || store == "local" || store == "uring" ? request_.options.storage
                                                                       : std::string("local");
    const bool in_memory = !is_object_ && sys::is_memory_file_system(data);
    const bool adds_delay = store == "slow" || store == "faulty";
    if (in_memory && !adds_delay)
      why_not_cold_ = fmt::format("the data lie on {}, which is memory: there is no cold state",
                                  sys::file_system_name(data));
    can_evict_ = !is_object_ && !in_memory;
    if (in_memory && adds_delay)
      found_.notes.push_back("the data lie in memory: T3's fetching is what the store " + store +
                             " adds");
    if (is_object_)
      found_.notes.push_back(
          "objects: T3 asks the server for each, whose own caches are not known; T4 has them in "
          "this process's memory");
    else if (warm_storage_ != request_.options.storage)
      found_.notes.push_back(fmt::format(
          "T4 reads the same files through local: {} does not use the page cache alone", store));
    if (found_.hosts > 1)
      found_.notes.push_back(
          "T3 and T4 ran on all hosts, so prep is T4 - T5; T1 and T2 ran on one host");
    else
      found_.times[RunKind::kHosts].reason =
          is_alone() ? "it needs two hosts: start forebay by mpirun on them"
                     : "all processes run on one host";
    found_.is_real_data_on_hosts = found_.hosts > 1;
    found_.notes.push_back(
        "emulated accelerators meet at barriers and exchange no gradients: interconnect and "
        "network hold the barriers alone");
  }

  // One unmeasured run: finds the data set, and warms what starts cold but once.
  Status look_at_data() {
    const uint64_t asked = workload().train.total_training_steps.value_or(UINT64_MAX);
    found_.steps = std::min(options_.steps_max, asked);
    const std::optional<RunResult> looked = FB_TRY(run_pass(Pass::kWarming));
    if (!looked) return {};
    found_.accelerators = looked->options.accelerators;
    found_.steps = looked->steps_per_epoch;
    found_.steps_per_epoch =
        looked->dataset.samples /
        (found_.batch_size * static_cast<uint64_t>(std::max(1, found_.accelerators)));
    found_.steps_excluded =
        std::max(std::min(kStartStepsExcluded, found_.steps / kStepsPerExcluded),
                 workload().output.exclude_start_steps);
    if (found_.steps <= found_.steps_excluded)
      return fail(ErrorCode::kInvalidArgument,
                  "an epoch has {} step{}, and the first {} are not measured: add data, or lower "
                  "reader.batch_size or --accelerators",
                  found_.steps, found_.steps == 1 ? "" : "s", found_.steps_excluded);
    if (found_.steps < found_.steps_per_epoch)
      found_.notes.push_back(fmt::format("each run takes {} of the {} steps of an epoch",
                                         found_.steps, found_.steps_per_epoch));
    return {};
  }

  // Groups begin each round in turn, so that no kind of run is always the first one after another.
  Status one_round(int repeat) {
    static constexpr std::array<Pass, 3> kSynthetic{Pass::kOne, Pass::kAll, Pass::kHosts};
    static constexpr std::array<Pass, 1> kColdRun{Pass::kCold}, kColdRate{Pass::kFetchCold};
    static constexpr std::array<Pass, 4> kMemory{Pass::kWarming, Pass::kWarm, Pass::kFetchMemory,
                                                 Pass::kPrep};
    static constexpr std::array<std::span<const Pass>, 4> kGroups{kSynthetic, kColdRun, kMemory,
                                                                  kColdRate};
    std::map<Pass, double> seconds;
    for (size_t i = 0; i < kGroups.size(); ++i)
      for (const Pass pass : kGroups[(i + static_cast<size_t>(repeat)) % kGroups.size()]) {
        if (!is_due(pass)) continue;
        on_run_(fmt::format("repeat {} of {}: {}", repeat + 1, options_.repeats, title(pass)));
        const std::optional<RunResult> ran = FB_TRY(run_pass(pass));
        if (found_.is_interrupted) return {};
        if (!ran) continue;  // another process's
        note_cache(pass, *ran);
        seconds[pass] = FB_TRY(step_seconds(*ran));
      }
    if (is_first()) keep(seconds);
    return {};
  }

  bool is_due(Pass pass) const {
    if (pass == Pass::kHosts) return found_.hosts > 1;
    if (pass == Pass::kCold || pass == Pass::kFetchCold) return why_not_cold_.empty();
    if (pass == Pass::kWarming) return !is_object_;
    return true;
  }

  void keep(const std::map<Pass, double>& seconds) {
    static constexpr std::array<std::pair<Pass, RunKind>, 5> kRuns{{{Pass::kOne, RunKind::kOne},
                                                                    {Pass::kAll, RunKind::kAll},
                                                                    {Pass::kHosts, RunKind::kHosts},
                                                                    {Pass::kCold, RunKind::kCold},
                                                                    {Pass::kWarm, RunKind::kWarm}}};
    for (const auto& [pass, kind] : kRuns)
      if (const auto at = seconds.find(pass); at != seconds.end())
        found_.times[kind].seconds.push_back(at->second);
    const double samples = samples_per_step();
    const auto rate = [&](Pass pass, std::vector<double>& rates) {
      const auto at = seconds.find(pass);
      if (at != seconds.end() && at->second > 0) rates.push_back(samples / at->second);
    };
    rate(found_.hosts > 1 ? Pass::kHosts : Pass::kAll, found_.rates.compute);
    rate(Pass::kPrep, found_.rates.prep);
    rate(Pass::kFetchMemory, found_.rates.fetch_memory);
    rate(Pass::kFetchCold, found_.rates.fetch_cold);
    ++found_.repeats;
  }

  double samples_per_step() const {
    return static_cast<double>(found_.batch_size) * found_.accelerators;
  }

  // --- one run ---

  RunRequest request_for(Pass pass) const {
    RunRequest asked = request_;
    asked.recorder = nullptr;
    workload::Workload& work = asked.resolved.workload;
    work.workflow.evaluation = work.workflow.checkpoint = work.workflow.generate_data = false;
    work.train.epochs = 1;
    work.train.total_training_steps = found_.steps;
    work.output.exclude_start_steps = found_.steps_excluded;
    work.output.exclude_end_steps = 0;
    work.reader.in_memory = false;
    // Every run takes the same samples: what one of them brings into memory the next one finds.
    for (Shuffle* shuffle : {&work.reader.file_shuffle, &work.reader.sample_shuffle})
      if (*shuffle == Shuffle::kRandom) *shuffle = Shuffle::kSeed;
    asked.options.cache = "as-is";
    asked.options.rules.clear();
    if (!computes(pass)) work.train.computation_time = {};
    if (!prepares(pass)) work.reader.preprocess_time = {};
    if (!prepares(pass) && !is_synthetic_pass(pass)) asked.options.payload = "bytes";
    if (is_synthetic_pass(pass)) {
      make_synthetic(asked, pass);
    } else if (pass == Pass::kCold || pass == Pass::kFetchCold) {
      if (can_evict_) asked.options.cache = "cold";
    } else {
      asked.options.storage = warm_storage_;
      if (is_object_ && is_from_memory(pass)) {  // the first epoch fills the memory
        work.reader.in_memory = true;
        work.train.epochs = 2;
        work.train.seed_change_epoch = false;
      }
    }
    return asked;
  }

  void make_synthetic(RunRequest& asked, Pass pass) const {
    workload::Workload& work = asked.resolved.workload;
    work.reader.data_loader = "synthetic";
    work.dataset.num_samples_per_file = 1;
    work.dataset.num_files_eval = 0;
    work.dataset.num_files_train =
        found_.steps * found_.batch_size * static_cast<uint64_t>(found_.accelerators);
    asked.options.storage = synthetic_store(work);
    if (is_object_) asked.options.data = ".";
    if (is_for_one_host(pass)) {
      asked.world = nullptr;
      asked.options.accelerators = pass == Pass::kOne ? 1 : found_.accelerators;
    }
  }

  // Process 0 alone does it.
  bool is_for_one_host(Pass pass) const {
    return pass == Pass::kOne || (pass == Pass::kAll && found_.hosts > 1);
  }

  // Nothing where another process runs it, and after a stop.
  Result<std::optional<RunResult>> run_pass(Pass pass) {
    const bool is_elsewhere = is_for_one_host(pass) && !is_first();
    std::optional<RunResult> ran;
    if (!is_elsewhere) {
      Observer silent;
      Result<RunResult> made = run(request_for(pass), silent, stop_);
      if (!made.ok()) return error_of(pass, made.error());
      RunResult result = std::move(made).value();
      if (!result.error.empty()) return fail(ErrorCode::kIo, "{}: {}", title(pass), result.error);
      found_.is_interrupted = found_.is_interrupted || result.is_interrupted;
      if (!result.is_interrupted) ran = std::move(result);
    }
    if (is_for_one_host(pass) && !is_alone()) FB_TRY(wait_for_first());
    return ran;
  }

  // The first run tells of what was asked for, as any run does.
  static Error error_of(Pass pass, Error error) {
    if (pass != Pass::kWarming) error.message = fmt::format("{}: {}", title(pass), error.message);
    return error;
  }

  Status wait_for_first() {
    const auto met = request_.world->gather(found_.is_interrupted ? "stop" : "", stop_);
    if (!met.ok() && met.error().code == ErrorCode::kCancelled) {
      found_.is_interrupted = true;
      return {};
    }
    if (!met.ok()) return met.error();
    for (const std::string& word : *met)
      if (!word.empty()) found_.is_interrupted = true;
    return {};
  }

  // --- what the runs say of the caches ---

  void note_cache(Pass pass, const RunResult& ran) {
    const bool is_cold = pass == Pass::kCold;
    if (!is_cold && pass != Pass::kWarm) return;
    for (const std::string& warning : ran.warnings)
      if (warning.find("page cache") != std::string::npos ||
          warning.find("cache state") != std::string::npos)
        note_once(std::string(title(pass)) + ": " + warning);
    Figure& kept = is_cold ? found_.cold_cached_share : found_.warm_cached_share;
    const Figure& now = ran.epochs.back().cached_share;
    if (!now.value || (kept.reason.empty() && !kept.value)) {
      kept = now;
      return;
    }
    if (!kept.value) return;
    kept.value = is_cold ? std::max(*kept.value, *now.value) : std::min(*kept.value, *now.value);
  }

  void note_once(const std::string& note) {
    if (std::count(found_.notes.begin(), found_.notes.end(), note) == 0)
      found_.notes.push_back(note);
  }

  void note_states() {
    const Figure& cold = found_.cold_cached_share;
    const Figure& warm = found_.warm_cached_share;
    if (can_evict_ && cold.value && *cold.value > kStrayShare)
      note_once(fmt::format("T3 is not cold: up to {:.0f} % of its bytes came from the page cache",
                            100 * *cold.value));
    if (can_evict_ && found_.times[RunKind::kCold].is_measured() && !cold.value)
      note_once("that T3 is cold was not verified: " + cold.reason);
    if (!is_object_ && warm.value && *warm.value < 1 - kStrayShare)
      note_once(fmt::format(
          "T4 is not warm: up to {:.0f} % of its bytes came from a device; the data of {} steps "
          "may not fit in memory (--stall-steps)",
          100 * (1 - *warm.value), found_.steps));
  }

  void finish() {
    static constexpr std::string_view kStopped = "stopped before a whole repeat was measured";
    if (!why_not_cold_.empty()) found_.times[RunKind::kCold].reason = why_not_cold_;
    for (trace::RunTimes& run : found_.times.runs)
      if (!run.is_measured() && run.reason.empty()) run.reason = kStopped;
    found_.rates.reason = why_not_cold_.empty() ? kStopped : why_not_cold_;
    if (!why_not_cold_.empty()) found_.cold_cached_share = Figure::none(why_not_cold_);
    for (Figure* share : {&found_.cold_cached_share, &found_.warm_cached_share})
      if (!share->value && share->reason.empty()) share->reason = kStopped;
    note_states();
    found_.stalls = trace::differential_stalls(found_.times, found_.is_real_data_on_hosts);
    found_.cache = trace::cache_share(found_.rates);
    found_.pace =
        trace::pace_model(found_.cache, samples_per_step(), found_.stalls[RunKind::kCold]);
  }

  const RunRequest& request_;
  const DifferentialOptions options_;
  const std::function<void(const std::string&)>& on_run_;
  const std::stop_token stop_;
  bool is_object_ = false, can_evict_ = false;
  std::string warm_storage_, why_not_cold_;
  StallsFound found_;
};

}  // namespace

Result<StallsFound> measure_stalls(const RunRequest& request, const DifferentialOptions& options,
                                   const std::function<void(const std::string&)>& on_run,
                                   std::stop_token stop) {
  return Differential(request, options, on_run, std::move(stop)).measure();
}

}  // namespace forebay::emulate
