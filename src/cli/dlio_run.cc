#include "cli/dlio_run.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "cli/console.h"
#include "cli/dlio_output.h"
#include "cli/dlio_tree.h"
#include "cli/dlio_yaml.h"
#include "cli/processes.h"
#include "cli/result_folder.h"
#include "cli/run_options.h"
#include "cli/stop_deadline.h"
#include "cli/workload_arguments.h"
#include "emulate/runner.h"
#include "report/dlio_files.h"
#include "report/dlio_log.h"
#include "report/rules.h"
#include "report/text.h"
#include "storage/place.h"
#include "sys/host.h"
#include "sys/process.h"

namespace forebay::cli {
namespace {

using workload::Node;

// Writes a run's lines as it goes, and its files at the end.
class DlioObserver : public emulate::Observer {
 public:
  DlioObserver(const emulate::RunRequest& request, DlioOutput& output, const ResultFolder& folder,
               StopDeadline& deadline, std::stop_token stop)
      : request_(request),
        output_(output),
        folder_(folder),
        deadline_(deadline),
        stop_(std::move(stop)) {}

  void on_start(const emulate::RunResult& so_far) override {
    started_ = so_far.started_unix_seconds;
    accelerators_ = so_far.options.accelerators;
    steps_ = so_far.steps_per_epoch;
    for (const std::string& warning : so_far.warnings) output_.line(DlioLevel::kWarning, warning);
    if (so_far.resolved.workload.workflow.is_checkpoint_only()) return;
    write({report::dlio_steps_line(so_far)}, sys::unix_seconds());
  }

  void on_tick(const emulate::Progress& progress) override {
    announce(
        progress.epoch, progress.is_evaluation,
        progress.steps_total / static_cast<uint64_t>(accelerators_),
        sys::unix_seconds() - started_ -
            1e-9 * static_cast<double>(base::monotonic_clock().now_ns() - progress.epoch_start_ns));
    if (speaks(*request_.world))
      show_progress(report::progress_line(progress, accelerators_, base::monotonic_clock().now_ns(),
                                          stderr_style()));
  }

  void on_epoch(const emulate::RunResult& so_far, const emulate::EpochResult& epoch) override {
    announce(epoch.epoch, epoch.is_evaluation, epoch.is_evaluation ? epoch.steps : steps_,
             epoch.start);
    const workload::Reader& reader = so_far.resolved.workload.reader;
    const uint64_t batch = epoch.is_evaluation ? reader.batch_size_eval : reader.batch_size;
    // In the order of time; at one moment a block begins before its steps, and ends after them.
    std::vector<std::pair<DlioLevel, report::DlioLine>> lines;
    const std::vector<report::DlioLine> blocks = report::dlio_epoch_lines(so_far, epoch);
    if (!blocks.empty()) lines.emplace_back(DlioLevel::kOutput, blocks.front());
    for (size_t rank = 0; rank < epoch.ranks.size() && output_.shows(DlioLevel::kInfo); ++rank)
      for (const report::DlioLine& line : report::dlio_step_lines(epoch, rank, batch))
        lines.emplace_back(DlioLevel::kInfo, line);
    for (size_t i = 1; i < blocks.size(); ++i) lines.emplace_back(DlioLevel::kOutput, blocks[i]);
    std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
      return a.second.seconds < b.second.seconds;
    });
    for (const auto& [level, line] : lines) write({line}, started_, level);
  }

  void on_checkpoint(const emulate::RunResult& so_far,
                     const emulate::CheckpointRecord& record) override {
    const auto& all = record.is_restore ? so_far.restores : so_far.checkpoints;
    write(report::dlio_checkpoint_lines(record, all.size()), started_);
  }

  // As with `forebay run`, an interrupted run ends here, and one that failed in several processes.
  void on_end(const emulate::RunResult& result) override {
    deadline_.hold();
    cluster::World& world = *request_.world;
    if (speaks(world)) {
      const StopDeadline writing(stop_, nullptr, nullptr,
                                 writing_grace(folder_, result.is_interrupted));
      written_ = finish(result);
    }
    if (!result.is_interrupted && (world.size() == 1 || result.error.empty())) return;
    discard_result_folder(folder_);  // the claim; what was written to stays
    const std::string error = !written_.ok() ? written_.error().message : result.error;
    const int code = result.is_interrupted ? kExitInterrupted : kExitFailed;
    leave_and_exit(world, error, written_.ok() ? code : kExitFailed);
  }

  void on_note(const std::string& text) override {
    if (speaks(*request_.world)) show_progress(text);
  }

  Status written() const { return written_; }

 private:
  void write(const std::vector<report::DlioLine>& lines, double start,
             DlioLevel level = DlioLevel::kOutput) {
    for (const report::DlioLine& line : lines) output_.line(level, start + line.seconds, line.text);
  }

  // The line that an epoch begins with, once.
  void announce(uint64_t epoch, bool is_evaluation, uint64_t steps, double seconds) {
    const std::pair<uint64_t, bool> now{epoch, is_evaluation};
    if (epoch == 0 || now == announced_) return;
    announced_ = now;
    write({report::dlio_epoch_start(epoch, is_evaluation, steps, seconds)}, started_);
  }

  Status finish(const emulate::RunResult& result) {
    FB_TRY(write_result(request_.options.out, result));
    output_.line(DlioLevel::kOutput, fmt::format("Saved outputs in {}", request_.options.out));
    if (!result.error.empty()) output_.line(DlioLevel::kError, result.error);
    if (result.is_interrupted)
      output_.line(DlioLevel::kError, "interrupted: " + result.stopped_because);
    output_.line(DlioLevel::kOutput, "Averaged metric over all steps/epochs");
    output_.block(DlioLevel::kOutput, report::dlio_metrics(result));
    if (!result.verdict.limited_by.empty())
      output_.line(DlioLevel::kOutput, fmt::format("limited by {}: {}", result.verdict.limited_by,
                                                   result.verdict.limit_evidence));
    if (result.rules) output_.block(DlioLevel::kOutput, report::rules_text(*result.rules));
    output_.line(DlioLevel::kOutput, "outputs saved in RANKID_output.json");
    return output_.status();
  }

  const emulate::RunRequest& request_;
  DlioOutput& output_;
  const ResultFolder& folder_;
  StopDeadline& deadline_;
  const std::stop_token stop_;
  std::pair<uint64_t, bool> announced_{0, false};
  double started_ = 0;
  uint64_t steps_ = 0;
  int accelerators_ = 1;
  Status written_;
};

// .hydra/config.yaml, hydra.yaml and overrides.yaml, or where hydra.output_subdir says.
Status write_configuration(const DlioConfig& config) {
  if (config.output_subdir.empty()) return {};
  const std::string folder = config.run_dir + "/" + config.output_subdir;
  Node hydra, overrides;
  hydra.kind = Node::Kind::kMap;
  make_in(hydra, "hydra") = config.hydra;
  overrides.kind = Node::Kind::kList;
  for (const std::string& text : config.task_overrides) {
    Node& item = overrides.items.emplace_back();
    item.kind = Node::Kind::kScalar;
    item.text = text;
    item.is_quoted = true;
  }
  FB_TRY(write_file_in(folder, "config.yaml", dlio_yaml(config.root)));
  FB_TRY(write_file_in(folder, "hydra.yaml", dlio_yaml(hydra)));
  return write_file_in(folder, "overrides.yaml", dlio_yaml(overrides));
}

// summary.json of a run that made data and measured nothing.
Status write_generation_summary(const emulate::RunRequest& request, double start) {
  emulate::RunResult result;
  result.resolved = request.resolved;
  result.resolved.workload.workflow.evaluation = false;
  result.options.accelerators = request.world->size();
  result.host = sys::host();
  result.started_unix_seconds = start;
  result.wall_seconds = sys::unix_seconds() - start;
  const workload::Dataset& data = request.resolved.workload.dataset;
  result.dataset.files = data.num_files_train;
  result.evaluation_dataset.files = data.num_files_eval;
  result.dataset.bytes = static_cast<uint64_t>(data.record_length_bytes *
                                               static_cast<double>(data.num_samples_per_file) *
                                               static_cast<double>(data.num_files_train));
  return write_file_in(request.options.out, "summary.json",
                       report::dlio_files(result).front().second);
}

Status generate(const emulate::RunRequest& request, DlioOutput& output, std::stop_token stop) {
  const double start = sys::unix_seconds();
  if (!request.resolved.workload.workflow.train)  // else the training part says them
    for (const std::string& warning : request.resolved.warnings)
      output.line(DlioLevel::kWarning, warning);
  output.line(DlioLevel::kOutput, "Starting data generation");
  FB_TRY(make_data(request, !speaks(*request.world), std::move(stop)));
  output.line(DlioLevel::kOutput, "Generation done");
  if (request.resolved.workload.workflow.train || !speaks(*request.world)) return {};
  FB_TRY(write_generation_summary(request, start));
  return output.status();
}

Status train(const emulate::RunRequest& request, DlioOutput& output, const ResultFolder& folder,
             StopDeadline& deadline, std::stop_token stop) {
  DlioObserver observer(request, output, folder, deadline, stop);
  const Result<emulate::RunResult> ran = emulate::run(request, observer, std::move(stop));
  if (!ran.ok()) return ran.error();
  FB_TRY(observer.written());
  if (!ran->error.empty()) return fail(ErrorCode::kIo, "{}", ran->error);
  return {};
}

Status check_workflow(const workload::Workflow& workflow) {
  if (workflow.train || workflow.generate_data || workflow.checkpoint) return {};
  return fail(ErrorCode::kInvalidArgument,
              "nothing to do: set workflow.generate_data, train or checkpoint to True");
}

const std::string& results_place(const DlioJob& job) {
  const workload::Output& asked = job.request.resolved.workload.output;
  return asked.folder.empty() ? job.config.run_dir : asked.folder;
}

// The log grows while the run lasts, as no object can; and a file that is written at the end of the
// run would take its place.
Status check_log_file(const std::string& log, const std::string& folder) {
  if (storage::is_object_place(folder) && !log.starts_with('/'))
    return fail(ErrorCode::kInvalidArgument,
                "{}: the log grows while the run lasts, which no object does: set "
                "output.log_file=/FOLDER/NAME, or let the results go to a folder",
                folder);
  const std::string name = log.substr(log.find_last_of('/') + 1);
  if (name.empty())
    return fail(ErrorCode::kInvalidArgument,
                "output.log_file = '{}' names no file; without it the log is dlio.log", log);
  if (!is_result_file(name)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "output.log_file = {}: the run leaves a file of its own under that name; choose "
              "another, such as dlio.log",
              log);
}

// What the workflow asks for, in DLIO's order.
Status work(const emulate::RunRequest& request, DlioOutput& output, const ResultFolder& folder,
            StopDeadline& deadline, std::stop_token stop) {
  const workload::Workload& workload = request.resolved.workload;
  const bool is_checkpoint_only = workload.workflow.is_checkpoint_only();
  output.line(DlioLevel::kOutput, fmt::format("Running DLIO [{}] with {} process(es)",
                                              workload.workflow.train ? "Training"
                                              : is_checkpoint_only    ? "Checkpointing"
                                                                      : "Generating data",
                                              request.world->size()));
  if (workload.workflow.generate_data) FB_TRY(generate(request, output, stop));
  if (!workload.workflow.train && !is_checkpoint_only) return {};
  FB_TRY(train(request, output, folder, deadline, stop));
  if (is_checkpoint_only || workload.dataset.keep_files || !speaks(*request.world)) return {};
  if (workload.workflow.generate_data) return remove_data(request.resolved, request.options.data);
  output.line(DlioLevel::kWarning,
              "dataset.keep_files: False: the data stays, this run did not make it");
  return {};
}

// The folder, the configuration in it and the log.
Result<ResultFolder> begin(const DlioJob& job, DlioOutput& output) {
  const workload::Workload& workload = job.request.resolved.workload;
  ResultFolder folder = FB_TRY(make_result_folder(results_place(job), workload.name));
  FB_TRY(write_configuration(job.config));
  const std::string& log = workload.output.log_file;
  FB_TRY(output.open_file(log.starts_with('/') ? log : folder.path + "/" + log));
  for (const std::string& warning : job.config.warnings) output.line(DlioLevel::kWarning, warning);
  return folder;
}

}  // namespace

Result<int> run_dlio(const DlioJob& job, std::stop_token stop) {
  emulate::RunRequest request = job.request;
  const bool is_speaker = speaks(*request.world);
  const DlioLevel level = FB_TRY(dlio_log_level());
  DlioOutput output(is_speaker ? level : DlioLevel::kSilent);
  FB_TRY(check_workflow(request.resolved.workload.workflow));
  FB_TRY(check_log_file(request.resolved.workload.output.log_file, results_place(job)));
  ResultFolder folder;
  if (is_speaker) {
    const StopDeadline making(stop, nullptr, request.world);
    folder = FB_TRY(begin(job, output));
  }
  request.options.out = folder.path;
  StopDeadline deadline(stop, &folder, request.world, work_grace(request));
  const Status done = work(request, output, folder, deadline, stop);
  discard_result_folder(folder);  // the claim; what was written to stays
  if (done.ok()) return kExitDone;
  output.line(DlioLevel::kError, done.error().message);
  return done.error();
}

}  // namespace forebay::cli
