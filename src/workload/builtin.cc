#include <fmt/format.h>

#include <deque>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "workload/builtin_yaml.h"
#include "workload/model_states.h"
#include "workload/workload.h"

namespace forebay::workload {

namespace {

// "168 npz files of 147 MB, batch 7, 323 ms a step".
std::string figures(const Workload& workload) {
  const Dataset& dataset = workload.dataset;
  const double file_bytes =
      dataset.record_length_bytes * static_cast<double>(dataset.num_samples_per_file);
  std::string text =
      fmt::format("{} {} file{} of {}", base::format_count(dataset.num_files_train), dataset.format,
                  dataset.num_files_train == 1 ? "" : "s", base::format_bytes(file_bytes));
  if (dataset.num_samples_per_file > 1)
    text += fmt::format(" ({} samples)", base::format_count(dataset.num_samples_per_file));
  if (!workload.workflow.train) return text;
  const Distribution& step = workload.train.computation_time;
  const bool is_constant = step.kind == Distribution::Kind::kConstant;
  return text + fmt::format(", batch {}, {} a step", base::format_count(workload.reader.batch_size),
                            is_constant ? base::format_seconds(step.a) : step.text() + " s");
}

// "8.03 billion parameters, 105 GiB each, 10 saves and 10 restores".
std::string checkpoint_figures(const Workload& workload) {
  const Model& model = workload.model;
  const auto states =
      ModelStates::make(workload, model.tensor_parallelism * model.pipeline_parallelism);
  FB_CHECK(states.ok());
  const auto count = [](const std::optional<uint64_t>& value) { return value.value_or(0); };
  return fmt::format("{:.3g} billion parameters, {}, {} saves, {} restores",
                     static_cast<double>(states->parameters()) * 1e-9,
                     base::format_memory(static_cast<double>(states->bytes())),
                     count(workload.checkpoint.num_checkpoints_write),
                     count(workload.checkpoint.num_checkpoints_read));
}

// The first line of each file is a comment that says what it is.
std::string_view purpose(std::string_view yaml) {
  std::string_view line = yaml.substr(0, yaml.find('\n'));
  FB_CHECK(line.substr(0, 2) == "# ");
  return base::trim(line.substr(2));
}

}  // namespace

std::span<const Builtin> builtin_workloads() {
  static const std::deque<std::string> summaries = [] {
    std::deque<std::string> texts;
    for (const BuiltinYaml& file : builtin_yaml()) {
      const auto resolved = resolve(file.name, {});
      FB_CHECK(resolved.ok());
      const Workload& workload = resolved->workload;
      texts.push_back(fmt::format("{}: {}", purpose(file.yaml),
                                  workload.workflow.is_checkpoint_only()
                                      ? checkpoint_figures(workload)
                                      : figures(workload)));
    }
    return texts;
  }();
  static const std::vector<Builtin> builtins = [] {
    std::vector<Builtin> all;
    for (const BuiltinYaml& file : builtin_yaml()) {
      all.push_back({file.name, summaries[all.size()], file.yaml});
    }
    return all;
  }();
  return builtins;
}

}  // namespace forebay::workload
