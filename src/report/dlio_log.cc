#include "report/dlio_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "emulate/metrics.h"
#include "report/dlio_figures.h"

namespace forebay::report {
namespace {

using emulate::Block;
using emulate::EpochResult;
using emulate::RunResult;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double or_nan(const std::optional<double>& value) {
  return value.value_or(kNan);
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? kNan : sum / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return values.empty() ? kNan : std::sqrt(squares / static_cast<double>(values.size()));
}

std::string spread_text(const DlioSpread& spread) {
  return fmt::format("{:.4f} ({:.4f})", or_nan(spread.mean), or_nan(spread.deviation));
}

void add_block(std::vector<DlioLine>& lines, const RunResult& run, const EpochResult& epoch,
               size_t index) {
  const workload::Workload& workload = run.resolved.workload;
  const Block& block = epoch.ranks[0].blocks[index];
  const emulate::DlioBlock figures = emulate::dlio_block(block, workload.output.exclude_start_steps,
                                                         workload.output.exclude_end_steps,
                                                         epoch.steps, workload.reader.batch_size);
  const std::string name = fmt::format("Epoch {} - Block {} [Training]", epoch.epoch, index + 1);
  const auto add = [&](double at, std::string text) { lines.push_back({at, std::move(text)}); };
  add(block.start, fmt::format("Starting block {}", index + 1));
  add(block.end, fmt::format("Ending block {} - {} steps completed in {:.2f} s", index + 1,
                             block.compute.size(), block.end - block.start));
  const std::optional<double> au = figures.au.value;
  add(block.end,
      fmt::format("{} Accelerator Utilization [AU] (%): {:.4f}", name, au ? 100 * *au : kNan));
  add(block.end, fmt::format("{} Throughput (samples/second): {:.4f}", name,
                             or_nan(figures.samples_per_second.value) *
                                 static_cast<double>(epoch.ranks.size())));
  add(block.end, fmt::format("{} Computation time per step (second): {:.4f}+/-{:.4f} (set value: "
                             "{})",
                             name, mean_of(block.compute), deviation_of(block.compute),
                             workload.train.computation_time.text()));
}

}  // namespace

std::string dlio_time(double unix_seconds) {
  const auto time = static_cast<std::time_t>(std::floor(unix_seconds));
  std::tm parts{};
  localtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  const double fraction = unix_seconds - std::floor(unix_seconds);
  return fmt::format("{}.{:06}", text, std::min(static_cast<int>(fraction * 1e6), 999'999));
}

DlioLine dlio_steps_line(const RunResult& so_far) {
  const workload::Workload& workload = so_far.resolved.workload;
  const uint64_t files = std::max<uint64_t>(1, so_far.dataset.files);
  return {0,
          fmt::format("Max steps per epoch: {} = {} * {} / {} / {} (samples per file * num "
                      "files / batch size / comm size)",
                      so_far.steps_per_epoch, so_far.dataset.samples / files, so_far.dataset.files,
                      workload.reader.batch_size, so_far.options.accelerators)};
}

DlioLine dlio_epoch_start(uint64_t epoch, bool is_evaluation, uint64_t steps, double seconds) {
  if (is_evaluation) return {seconds, fmt::format("Starting eval - {} steps expected", steps)};
  return {seconds, fmt::format("Starting epoch {}: {} steps expected", epoch, steps)};
}

std::vector<DlioLine> dlio_epoch_lines(const RunResult& so_far, const EpochResult& epoch) {
  std::vector<DlioLine> lines;
  const double duration = epoch.end - epoch.start;
  const auto add = [&](double at, std::string text) { lines.push_back({at, std::move(text)}); };
  if (epoch.is_evaluation) {
    add(epoch.end,
        fmt::format("Ending eval - {} steps completed in {:.2f} s", epoch.steps, duration));
    const std::string name = fmt::format("Epoch {} [Eval]", epoch.epoch);
    add(epoch.end, fmt::format("{} Accelerator Utilization [AU] (%): {:.4f}", name,
                               100 * or_nan(epoch.dlio_au.value)));
    add(epoch.end, fmt::format("{} Throughput (samples/second): {:.4f}", name,
                               or_nan(epoch.samples_per_second.value)));
    return lines;
  }
  for (size_t i = 0; !epoch.ranks.empty() && i < epoch.ranks[0].blocks.size(); ++i)
    add_block(lines, so_far, epoch, i);
  size_t number = 0;
  for (const emulate::CheckpointRecord& save : so_far.checkpoints) {
    if (save.epoch != epoch.epoch) continue;
    for (DlioLine& line : dlio_checkpoint_lines(save, ++number)) lines.push_back(std::move(line));
  }
  add(epoch.end, fmt::format("Ending epoch {} - {} steps completed in {:.2f} s", epoch.epoch,
                             epoch.steps, duration));
  std::stable_sort(lines.begin(), lines.end(),
                   [](const DlioLine& a, const DlioLine& b) { return a.seconds < b.seconds; });
  return lines;
}

std::vector<DlioLine> dlio_checkpoint_lines(const emulate::CheckpointRecord& record,
                                            size_t number) {
  const double seconds = dlio_checkpoint_seconds(record, 0);
  const char* doing = record.is_restore ? "loading" : "saving";
  return {{record.start, fmt::format("Starting {} checkpoint {} after total step {} for epoch {}",
                                     doing, number, record.step, record.epoch)},
          {record.start + seconds, fmt::format("Finished {} checkpoint {} for epoch {} in {:.4f} s",
                                               doing, number, record.epoch, seconds)}};
}

std::vector<DlioLine> dlio_step_lines(const EpochResult& epoch, size_t rank, uint64_t batch_size) {
  std::vector<DlioLine> lines;
  int step = 0;
  for (const Block& block : epoch.ranks.at(rank).blocks) {
    double at = block.start;
    for (size_t i = 0; i < block.proc.size(); ++i) {
      ++step;
      const auto line = [&](double when, const char* what, double seconds) {
        lines.push_back({when, fmt::format("Rank {} step {}: {} {} samples in {:.6f} s", rank, step,
                                           what, batch_size, seconds)});
      };
      line(at + block.load[i], "loaded", block.load[i]);
      at += block.proc[i];
      line(at, "processed", block.proc[i]);
    }
  }
  return lines;
}

std::string dlio_metrics(const RunResult& result) {
  const workload::Workflow& workflow = result.resolved.workload.workflow;
  const DlioFigures figures = dlio_figures(result);
  const std::string rule(58, '=');
  std::string text = fmt::format("[METRIC] {}\n", rule);
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("[METRIC] {}: {}\n", name, value);
  };
  const auto judged = [](const std::optional<bool>& is_met) -> std::string {
    return !is_met ? "not measured" : *is_met ? "success" : "fail";
  };
  add("Number of Simulated Accelerators", fmt::format("{} ", result.options.accelerators));
  if (workflow.train) {
    add("Training Accelerator Utilization [AU] (%)", spread_text(figures.train_au_percent));
    add("Training Throughput (samples/second)", spread_text(figures.train_samples_per_second));
    add("Training I/O Throughput (MB/second)", spread_text(figures.train_mib_per_second));
    add("train_au_meet_expectation", judged(figures.train_meets));
  }
  if (!result.checkpoints.empty()) {
    add("Checkpoint save duration (seconds)", spread_text(figures.save_seconds));
    add("Checkpoint save I/O Throughput (GB/second)", spread_text(figures.save_gib_per_second));
  }
  if (!result.restores.empty()) {
    add("Checkpoint load duration (seconds)", spread_text(figures.load_seconds));
    add("Checkpoint load I/O Throughput (GB/second)", spread_text(figures.load_gib_per_second));
  }
  if (workflow.evaluation) {
    add("Eval Accelerator Utilization [AU] (%)", spread_text(figures.eval_au_percent));
    add("Eval Throughput (samples/second)", spread_text(figures.eval_samples_per_second));
    add("Eval I/O Throughput (MB/second)", spread_text(figures.eval_mib_per_second));
    add("eval_au_meet_expectation", judged(figures.eval_meets));
  }
  return text + fmt::format("[METRIC] {}\n", rule);
}

}  // namespace forebay::report
