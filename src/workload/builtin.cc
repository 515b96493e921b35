#include <fmt/format.h>

#include <deque>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "workload/builtin_yaml.h"
#include "workload/workload.h"

namespace forebay::workload {

namespace {

// "168 npz files of 147 MB, batch 7, 0.323 s a step".
std::string figures(const Workload& workload) {
  const Dataset& dataset = workload.dataset;
  const double file_bytes =
      dataset.record_length_bytes * static_cast<double>(dataset.num_samples_per_file);
  std::string text = fmt::format("{} {} files of {}", base::format_count(dataset.num_files_train),
                                 dataset.format, base::format_bytes(file_bytes));
  if (dataset.num_samples_per_file > 1)
    text += fmt::format(" ({} samples)", base::format_count(dataset.num_samples_per_file));
  if (!workload.workflow.train) return text;
  return text + fmt::format(", batch {}, {} s a step", workload.reader.batch_size,
                            workload.train.computation_time.text());
}

// Why a shipped workload cannot run yet: the reason at the end of the message, without place,
// value and remedy.
std::string refusal(std::string_view message) {
  const size_t colon = message.rfind(": ");
  const std::string_view reason = message.substr(colon == std::string_view::npos ? 0 : colon + 2);
  return fmt::format("cannot run yet: {}", reason.substr(0, reason.find(';')));
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
      texts.push_back(fmt::format(
          "{}: {}", purpose(file.yaml),
          resolved.ok() ? figures(resolved->workload) : refusal(resolved.error().message)));
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
