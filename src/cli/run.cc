// forebay run: emulates a training job's I/O.
#include <algorithm>
#include <array>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/processes.h"
#include "cli/result_folder.h"
#include "cli/run_options.h"
#include "cli/run_trace.h"
#include "cli/stop_deadline.h"
#include "cli/version.h"
#include "cli/workload_arguments.h"
#include "dataset/generator.h"
#include "emulate/data_source.h"
#include "emulate/data_store.h"
#include "emulate/differential_runs.h"
#include "emulate/find_max.h"
#include "emulate/rules.h"
#include "emulate/runner.h"
#include "report/inspection.h"
#include "report/json.h"
#include "report/stalls.h"
#include "sys/stop_signal.h"
#include "sys/thread.h"

namespace forebay::cli {
namespace {

constexpr int64_t kAcceleratorsMax = 4096;

constexpr std::array<std::string_view, 2> kPayloads{"decode", "bytes"};
constexpr std::array<std::string_view, 3> kCaches{"as-is", "cold", "warm"};
constexpr std::array<std::string_view, 3> kOnErrors{"raise", "skip", "replace"};

constexpr std::array<Positional, 2> kPositionals{{
    {.name = "WORKLOAD",
     .summary = "a built-in (forebay list workloads) or a YAML file",
     .required = true},
    {.name = "KEY=VALUE", .summary = "overrides, for example reader.batch_size=8", .repeats = true},
}};

constexpr std::array<Flag, 21> kFlags{{
    {.name = "--data",
     .value = "DIR",
     .summary = "the data set's folder",
     .detail =
         "A folder, or s3://BUCKET/PREFIX of an object store. "
         "Without it, storage.storage_root and dataset.data_folder of the workload say where. "
         "A folder that holds train/ and valid/ is used as DLIO uses it; any other folder is "
         "read whole, with its subfolders."},
    {.name = "--accelerators",
     .value = "N",
     .fallback = "1",
     .summary = "emulated accelerators, of each process under mpirun"},
    {.name = "--find-max-accelerators",
     .summary = "search how many the storage feeds",
     .detail =
         "Runs the workload with 1, 2, 4, ... accelerators until the AU falls below metric.au, "
         "then halves the gap. --accelerators is not used. Under mpirun each process has so many, "
         "and what is found counts all of them."},
    {.name = "--max-accelerators",
     .value = "N",
     .fallback = "64",
     .summary = "where that search stops, per process"},
    {.name = "--stalls",
     .summary = "prep, fetch, interconnect, network stalls by comparing runs",
     .detail = "Runs the workload with synthetic data on one and on all accelerators, with real "
               "data cold and warm, and on several hosts under mpirun, in turn and again; the "
               "differences are the stalls (docs/concepts/stalls.md). Writes stalls.json."},
    {.name = "--repeats",
     .value = "N",
     .fallback = "5",
     .summary = "of each of these runs; one repeat gives no intervals"},
    {.name = "--stall-steps",
     .value = "N",
     .fallback = "50",
     .summary = "the most steps that one of these runs takes"},
    {.name = "--storage",
     .value = "SPEC",
     .fallback = "local",
     .summary = "how bytes are read (forebay list stores)",
     .detail = "NAME or NAME:option=value,... for example slow:latency=5ms,over=local."},
    {.name = "--cache",
     .value = "STATE",
     .fallback = "as-is",
     .summary = "page cache before each epoch",
     .detail = "cold evicts the data set before every epoch and checks that it went; warm reads it "
               "once before the first; the same for a checkpoint before its restore. The share of "
               "bytes that came from the cache is measured and "
               "printed in any case.",
     .choices = kCaches},
    {.name = "--payload",
     .value = "MODE",
     .fallback = "decode",
     .summary = "what is done with the bytes",
     .detail = "bytes reads only. decode parses, verifies checksums, decompresses and decodes.",
     .choices = kPayloads},
    {.name = "--on-error",
     .value = "POLICY",
     .fallback = "raise",
     .summary = "what a bad record does",
     .detail =
         "raise ends the run at the first one; skip leaves it out; replace uses another sample "
         "of the same batch. Skipped and replaced records are counted and named.",
     .choices = kOnErrors},
    {.name = "--errors-max", .value = "N", .summary = "bad records allowed with skip or replace"},
    {.name = "--decode-threads",
     .value = "N",
     .fallback = "0",
     .summary = "per accelerator; 0 = as the workload says",
     .detail =
         "The workload says the larger of reader.read_threads and reader.computation_threads."},
    {.name = "--rules",
     .value = "NAME",
     .summary = "check the run against MLPerf Storage's rules",
     .detail =
         "Lists each violation; the run is valid (for the closed division), open, or invalid. "
         "An invalid run ends with exit code 3.",
     .choices = kRuleSets},
    kCompatFlag,
    {.name = "--no-barrier", .summary = "accelerators do not meet after each step"},
    {.name = "--out", .value = "DIR", .summary = "result folder (default: results/WORKLOAD-NNNN)"},
    {.name = "--trace",
     .value = "FILE",
     .summary = "record the run: .fbt for forebay explain, .pftrace or .json for Perfetto, .csv"},
    {.name = "--dry-run", .summary = "print the resolved plan and stop"},
    {.name = "--json", .summary = "print the result as JSON on stdout"},
    {.name = "--quiet", .summary = "no progress and no epoch lines"},
}};

constexpr std::array<std::string_view, 6> kExamples{
    "forebay run unet3d_h100 --data /mnt/d --accelerators 4",
    "forebay run demo_images --data ~/photos",
    "forebay run unet3d_h100 --data /mnt/d --cache cold --find-max-accelerators",
    "forebay run unet3d_h100 --data /mnt/d --accelerators 4 --stalls",
    "forebay run my.yaml train.epochs=2 reader.read_threads=8 --json",
    "forebay run llama_8b_zero3 checkpoint.checkpoint_folder=/mnt/ck --accelerators 8",
};

// Shows a run on a terminal as it goes, or a line per epoch otherwise.
class Console : public emulate::Observer {
 public:
  Console(bool quiet, bool epochs_to_stdout) : quiet_(quiet), to_stdout_(epochs_to_stdout) {}

  void on_start(const emulate::RunResult& so_far) override {
    accelerators_ = so_far.options.accelerators;  // of all processes
    if (!quiet_) say(report::run_head(so_far, style()));
  }
  void on_tick(const emulate::Progress& progress) override {
    if (quiet_) return;
    show_progress(report::progress_line(progress, accelerators_, base::monotonic_clock().now_ns(),
                                        stderr_style()));
  }
  void on_epoch(const emulate::RunResult& so_far, const emulate::EpochResult& epoch) override {
    if (!quiet_) say(report::epoch_line(epoch, so_far, style()));
  }
  void on_checkpoint(const emulate::RunResult& /*so_far*/,
                     const emulate::CheckpointRecord& record) override {
    if (!quiet_) say(report::checkpoint_line(record, style()));
  }
  void on_note(const std::string& text) override {
    if (!quiet_) show_progress(text);
  }

 private:
  report::TextStyle style() const { return to_stdout_ ? stdout_style() : stderr_style(); }
  void say(const std::string& text) {
    if (to_stdout_)
      print(text).ignore("a closed stdout is reported when the summary is printed");
    else
      talk(text);
  }
  const bool quiet_, to_stdout_;
  int accelerators_ = 1;
};

// The store that reads `place`: what was asked for, or what the workload and the place imply.
Result<std::string> store_spec(const Arguments& arguments, const workload::Workload& workload,
                               const std::string& place) {
  const std::string given = *arguments.get("--storage");
  const bool is_given = arguments.has("--storage");
  if (emulate::is_synthetic(workload) && !workload.workflow.is_checkpoint_only()) {
    if (!is_given) return emulate::synthetic_store(workload);
    return fail(ErrorCode::kInvalidArgument,
                "--storage {}: nothing is read with reader.data_loader = synthetic", given);
  }
  if (emulate::is_object_place(place)) {
    if (!is_given) return std::string("s3");
    static constexpr std::array<std::string_view, 3> kElsewhere{"local", "memory", "null"};
    const std::string_view name = std::string_view(given).substr(0, given.find(':'));
    if (std::find(kElsewhere.begin(), kElsewhere.end(), name) != kElsewhere.end())
      return fail(ErrorCode::kInvalidArgument,
                  "--storage {}: {} is an object store, which s3, slow and faulty read", given,
                  place);
    return given;
  }
  const bool is_direct = workload.reader.odirect && !workload.workflow.is_checkpoint_only();
  return is_direct && !is_given ? "direct" : given;
}

// Where a run that only saves and restores does that first.
Result<std::string> checkpoint_place(const workload::Workload& workload) {
  const workload::Checkpoint& checkpoint = workload.checkpoint;
  return emulate::checkpoint_place(
      checkpoint.tiers.empty() ? checkpoint.checkpoint_folder : checkpoint.tiers.front().place,
      workload.storage);
}

Status check_checkpoint_only(const Arguments& arguments) {
  static constexpr std::array<std::string_view, 11> kOfData{
      "--data",       "--find-max-accelerators", "--max-accelerators", "--stalls",
      "--repeats",    "--stall-steps",           "--payload",          "--on-error",
      "--errors-max", "--decode-threads",        "--no-barrier"};
  for (const std::string_view flag : kOfData)
    if (arguments.has(flag))
      return fail(ErrorCode::kInvalidArgument,
                  "{}: this run only saves and restores checkpoints (workflow.train is False); "
                  "checkpoint.checkpoint_folder or checkpoint.tiers say where",
                  flag);
  return {};
}

}  // namespace

Result<emulate::RunOptions> read_run_options(const Arguments& arguments,
                                             const workload::Resolved& resolved) {
  const bool is_checkpoint_only = resolved.workload.workflow.is_checkpoint_only();
  if (is_checkpoint_only) FB_TRY(check_checkpoint_only(arguments));
  emulate::RunOptions options;
  options.data = FB_TRY(is_checkpoint_only ? checkpoint_place(resolved.workload)
                                           : data_folder(arguments, resolved));
  options.storage = FB_TRY(store_spec(arguments, resolved.workload, options.data));
  options.accelerators =
      static_cast<int>(FB_TRY(arguments.integer("--accelerators", 1, kAcceleratorsMax)));
  options.barrier = !arguments.has("--no-barrier");
  options.payload = *arguments.get("--payload");
  options.cache = *arguments.get("--cache");
  if (resolved.compat == workload::Compat::kMlpsV3) {  // what that program always does
    const bool is_mounted = resolved.workload.storage.storage_type.ends_with("_fs") &&
                            !emulate::is_object_place(options.data) &&
                            (is_checkpoint_only || !emulate::is_synthetic(resolved.workload));
    if (!arguments.has("--payload")) options.payload = "bytes";
    if (!arguments.has("--cache") && is_mounted) options.cache = "cold";
  }
  if (const auto rules = arguments.get("--rules"))
    options.rules = emulate::rule_set_name(*emulate::rule_set_from_name(*rules));
  options.on_error = *arguments.get("--on-error");
  if (arguments.has("--errors-max"))
    options.errors_max =
        static_cast<uint64_t>(FB_TRY(arguments.integer("--errors-max", 0, INT64_MAX)));
  options.decode_threads = static_cast<int>(FB_TRY(arguments.integer("--decode-threads", 0, 1024)));
  return options;
}

namespace {

int exit_code_of(const emulate::RunResult& result) {
  if (result.is_interrupted) return kExitInterrupted;
  if (!result.error.empty()) return kExitFailed;
  if (result.rules && result.rules->outcome == emulate::RulesReport::Outcome::kInvalid)
    return kExitGateNotMet;
  const auto outcome = result.verdict.outcome;
  const bool is_met = outcome == emulate::Verdict::Outcome::kPass ||
                      outcome == emulate::Verdict::Outcome::kNotMeasured;
  return is_met ? kExitDone : kExitGateNotMet;
}

// Also writes and prints the result at the end. An interrupted run ends there, and one that failed
// in several processes: reads that hang in the storage would hold up an orderly end, and everything
// is on disk.
class RunConsole : public Console {
 public:
  RunConsole(const Arguments& arguments, const emulate::RunRequest& request, RunTrace* trace,
             const ResultFolder& folder, StopDeadline& deadline, std::stop_token stop)
      : Console(arguments.has("--quiet") || !speaks(*request.world), !arguments.has("--json")),
        request_(request),
        trace_(trace),
        folder_(folder),
        deadline_(deadline),
        stop_(std::move(stop)),
        is_json_(arguments.has("--json")) {}

  void on_end(const emulate::RunResult& result) override {
    deadline_.hold();
    cluster::World& world = *request_.world;
    if (speaks(world)) {
      const StopDeadline writing(stop_, nullptr, nullptr,
                                 writing_grace(folder_, result.is_interrupted));
      written_ = write(result);
    }
    code_ = exit_code_of(result);
    if (!result.is_interrupted && (world.size() == 1 || result.error.empty())) return;
    discard_result_folder(folder_);  // the claim; what was written to stays
    // Process 0 has just printed the run's own error.
    const std::string error = !written_.ok()  ? written_.error().message
                              : speaks(world) ? ""
                                              : result.error;
    leave_and_exit(world, error, written_.ok() ? code_ : kExitFailed);
  }

  Status written() const { return written_; }
  int code() const { return code_; }

 private:
  Status write(const emulate::RunResult& result) {
    Status written = write_result(request_.options.out, result);
    if (trace_ != nullptr && written.ok()) written = trace_->finish();
    if (trace_ != nullptr && request_.recorder->dropped() > 0)
      talk(fmt::format("forebay: the trace is incomplete: {} did not fit\n",
                       base::format_counted(request_.recorder->dropped(), "events")));
    std::string text =
        is_json_ ? report::to_json(result) : report::run_summary(result, stdout_style());
    if (trace_ != nullptr && written.ok() && !is_json_)
      text += fmt::format("{:<12}{}\n", "trace in", trace_->path());
    FB_TRY(print(text));
    return written;
  }

  const emulate::RunRequest& request_;
  RunTrace* const trace_;
  const ResultFolder& folder_;
  StopDeadline& deadline_;
  const std::stop_token stop_;
  const bool is_json_;
  Status written_;
  int code_ = kExitDone;
};

// Each attempt's result goes below OUT/accelerators-N, the whole into OUT/maximum.json.
Result<int> find_max(const Arguments& arguments, const emulate::RunRequest& request,
                     std::stop_token stop) {
  const bool json = arguments.has("--json");
  const int limit =
      static_cast<int>(FB_TRY(arguments.integer("--max-accelerators", 1, kAcceleratorsMax)));
  Console console(true, false);
  const bool talks = speaks(*request.world);
  Status written;
  const auto on_attempt = [&](const emulate::Attempt& attempt, const emulate::RunResult& result) {
    if (!talks) return;
    const std::string line = report::attempt_line(attempt);
    if (json)
      talk(line);
    else
      print(line).ignore("a closed stdout is reported when the summary is printed");
    if (written.ok())
      written = write_result(
          fmt::format("{}/accelerators-{}", request.options.out, attempt.accelerators), result);
  };
  const emulate::MaximumFound found =
      FB_TRY(emulate::find_max_accelerators(request, limit, console, on_attempt, stop));
  FB_TRY(std::move(written));
  if (talks) {
    FB_TRY(write_file_in(request.options.out, "maximum.json", report::maximum_json(found)));
    FB_TRY(print(json ? report::maximum_json(found)
                      : report::maximum_text(found) + "written to  " + request.options.out + "\n"));
  }
  if (found.is_interrupted) return kExitInterrupted;
  return found.accelerators > 0 ? kExitDone : kExitGateNotMet;
}

// The stalls go into OUT/stalls.json.
Result<int> find_stalls(const Arguments& arguments, const emulate::RunRequest& request,
                        std::stop_token stop) {
  const bool json = arguments.has("--json");
  const bool talks = speaks(*request.world);
  const bool shows = talks && !arguments.has("--quiet");
  emulate::DifferentialOptions options;
  options.repeats = static_cast<int>(FB_TRY(arguments.integer("--repeats", 1, 1000)));
  options.steps_max =
      static_cast<uint64_t>(FB_TRY(arguments.integer("--stall-steps", 2, 1'000'000'000)));
  const emulate::StallsFound found = FB_TRY(emulate::measure_stalls(
      request, options,
      [&](const std::string& text) {
        if (shows) show_progress(text);
      },
      std::move(stop)));
  if (shows) show_progress("");
  if (talks) {
    FB_TRY(write_file_in(request.options.out, "stalls.json", report::stalls_json(found)));
    FB_TRY(print(json ? report::stalls_json(found)
                      : report::stalls_text(found) + "written to  " + request.options.out + "\n"));
  }
  return found.is_interrupted ? kExitInterrupted : kExitDone;
}

// Process 0 writes the file that was named, process 3 of "t.fbt" writes "t.3.fbt".
std::string path_of_rank(const std::string& path, int rank) {
  if (rank == 0) return path;
  const size_t name = path.find_last_of('/') + 1;  // 0 where there is no folder
  const size_t dot = std::min(path.find_last_of('.'), path.size());
  const size_t at = dot > name && dot != path.size() ? dot : path.size();
  return path.substr(0, at) + fmt::format(".{}", rank) + path.substr(at);
}

Result<int> run_once(const Arguments& arguments, emulate::RunRequest& request,
                     const ResultFolder& folder, StopDeadline& deadline, std::stop_token stop) {
  std::unique_ptr<RunTrace> trace;
  if (arguments.has("--trace")) {
    const int rank = request.world->size() > 1 ? request.world->rank() : -1;
    const std::string path = path_of_rank(*arguments.get("--trace"), std::max(rank, 0));
    trace = FB_TRY(RunTrace::open(path, request.command, rank));
    request.recorder = &trace->recorder();
  }
  RunConsole console(arguments, request, trace.get(), folder, deadline, stop);
  const Result<emulate::RunResult> ran = emulate::run(request, console, std::move(stop));
  if (!ran.ok()) return ran.error();
  FB_TRY(console.written());
  if (trace && !speaks(*request.world)) FB_TRY(trace->finish());
  return console.code();
}

}  // namespace

StopGrace work_grace(const emulate::RunRequest& request) {
  const workload::Workload& workload = request.resolved.workload;
  std::vector<std::string> written;
  if (workload.workflow.generate_data) written.push_back(request.options.data);
  if (workload.workflow.checkpoint) {
    for (const workload::CheckpointPlace& tier : workload.checkpoint.tiers)
      written.push_back(tier.place);
    if (workload.checkpoint.tiers.empty())
      written.push_back(checkpoint_place(workload).value_or(""));
  }
  return work_grace(written);
}

Status make_data(const emulate::RunRequest& request, bool quiet, std::stop_token stop) {
  FB_TRY(generate_data(request.resolved, request.options.data, 0, quiet, stop, request.world));
  const double settle = request.resolved.workload.storage.post_generation_settle_seconds;
  if (settle <= 0) return {};
  if (!quiet) talk(fmt::format("waiting {} s for the storage to settle\n", settle));
  base::Clock& clock = base::monotonic_clock();
  if (!clock.sleep_until_ns(clock.now_ns() + static_cast<int64_t>(settle * 1e9), stop))
    return fail(ErrorCode::kCancelled, "stopped while waiting for the storage to settle");
  return {};
}

namespace {

Status check_combination(const Arguments& arguments, const workload::Workload& workload) {
  if (workload.workflow.is_checkpoint_only()) return {};
  if (!workload.workflow.train)
    return fail(
        ErrorCode::kInvalidArgument,
        "{} does not train (workflow.train is False); to make its data: forebay generate {}",
        workload.name, workload.name);
  if (arguments.has("--find-max-accelerators") && arguments.has("--trace"))
    return fail(ErrorCode::kInvalidArgument,
                "--trace records one run: give --accelerators instead of --find-max-accelerators");
  if (!arguments.has("--stalls")) {
    for (const std::string_view flag : {"--repeats", "--stall-steps"})
      if (arguments.has(flag))
        return fail(ErrorCode::kInvalidArgument, "{} belongs to --stalls", flag);
    return {};
  }
  for (const std::string_view flag : {"--find-max-accelerators", "--trace", "--rules", "--cache"})
    if (arguments.has(flag))
      return fail(
          ErrorCode::kInvalidArgument,
          "--stalls compares several runs, each with a cache state of its own: leave out {}", flag);
  return {};
}

// Whether anything is left to be done: removes the data of dataset.keep_files: False.
Status tidy_up(const emulate::RunRequest& request) {
  const workload::Workload& workload = request.resolved.workload;
  if (workload.workflow.is_checkpoint_only()) return {};
  if (workload.dataset.keep_files || !speaks(*request.world)) return {};
  if (workload.workflow.generate_data) return remove_data(request.resolved, request.options.data);
  talk("note    dataset.keep_files: False: the data stays, this run did not make it\n");
  return {};
}

Result<int> run_here(const Arguments& arguments, emulate::RunRequest request,
                     std::stop_token stop) {
  const cluster::World& world = *request.world;
  const workload::Workload& workload = request.resolved.workload;
  ResultFolder folder;
  if (speaks(world)) {
    const StopDeadline making(stop, nullptr, &world);
    folder = FB_TRY(
        make_result_folder(arguments.get("--out").value_or(workload.output.folder), workload.name));
  }
  request.options.out = folder.path;
  StopDeadline deadline(stop, &folder, &world, work_grace(request));
  const bool finds_max = arguments.has("--find-max-accelerators");
  Result<int> code = [&]() -> Result<int> {
    if (workload.workflow.generate_data)
      FB_TRY(make_data(request, arguments.has("--quiet") || !speaks(world), stop));
    if (arguments.has("--stalls")) return find_stalls(arguments, request, stop);
    return finds_max ? find_max(arguments, request, stop)
                     : run_once(arguments, request, folder, deadline, stop);
  }();
  discard_result_folder(folder);  // what was written to stays
  FB_TRY(tidy_up(request));
  return code;
}

Result<emulate::RunRequest> read_request(const Arguments& arguments) {
  emulate::RunRequest request;
  request.resolved = FB_TRY(resolve_arguments(arguments));
  request.options = FB_TRY(read_run_options(arguments, request.resolved));
  request.version = kVersion;
  request.command = command_line(arguments);
  static constexpr std::array<std::string_view, 4> kReplaced{"--accelerators", "--out", "--trace",
                                                             "--payload"};
  request.next_base = command_line(arguments, kReplaced);
  FB_TRY(check_combination(arguments, request.resolved.workload));
  return request;
}

Result<int> run(const Arguments& arguments) {
  sys::StopSignal signal;
  return with_processes(signal.token(), [&](cluster::World& world) -> Result<int> {
    emulate::RunRequest request = FB_TRY(read_request(arguments));
    request.world = &world;
    static constexpr std::array<std::string_view, 6> kMayDiffer{
        "--data", "--accelerators", "--out", "--trace", "--json", "--quiet"};
    FB_TRY(
        agree_on_command(arguments, kMayDiffer, emulate::items_of(request), world, signal.token()));
    if (arguments.has("--dry-run")) {
      if (speaks(world)) FB_TRY(print(workload::to_yaml(request.resolved)));
      return kExitDone;
    }
    if (world.size() > 1)
      for (std::string* text : {&request.command, &request.next_base})
        *text = fmt::format("mpirun -np {} {}", world.size(), *text);
    // Processes that were started with different words have no one command.
    const std::vector<std::string> commands = FB_TRY(world.gather(request.command, signal.token()));
    for (const std::string& other : commands)
      if (other != request.command) request.next_base.clear();
    return run_here(arguments, std::move(request), signal.token());
  });
}

}  // namespace

const Command kRun{.name = "run",
                   .group = "measure",
                   .summary = "run a workload here",
                   .detail =
                       "Emulates a training job: accelerators take batches, wait for each other "
                       "and \"compute\" for the workload's time, while the loader reads, checks "
                       "and decodes real files. A workload that only saves and restores "
                       "checkpoints does that (docs/concepts/checkpoint-workloads.md). Exit code "
                       "0: the AU meets metric.au, or there "
                       "was none to judge; 3: it does not, more than 1 % of the samples were bad, "
                       "or --rules finds the run invalid; 130: interrupted, the partial result is "
                       "written. Under mpirun all processes run one job (docs/concepts/hosts.md).",
                   .positionals = kPositionals,
                   .flags = kFlags,
                   .run = run,
                   .examples = kExamples};

}  // namespace forebay::cli
