#include "cli/dlio_command.h"

#include <fmt/format.h>

#include <ctime>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/dlio_command_line.h"
#include "cli/dlio_config.h"
#include "cli/dlio_interpolation.h"
#include "cli/dlio_run.h"
#include "cli/dlio_tree.h"
#include "cli/dlio_yaml.h"
#include "cli/processes.h"
#include "cli/run_options.h"
#include "cli/version.h"
#include "emulate/agreement.h"
#include "sys/process.h"
#include "sys/stop_signal.h"
#include "workload/document.h"

namespace forebay::cli {
namespace {

using workload::Node;
using Action = DlioCommandLine::Action;

int64_t now_us() {
  return static_cast<int64_t>(sys::unix_seconds() * 1e6);
}

// --cfg: what would be written beside a run.
Result<std::string> shown_configuration(const DlioCommandLine& line, const DlioConfig& config) {
  Node all = line.is_resolved ? config.resolved : config.root;
  if (line.shown == "hydra") {
    all = Node();
    all.kind = Node::Kind::kMap;
  }
  if (line.shown != "job") make_in(all, "hydra") = config.hydra;
  if (line.package.empty()) return dlio_yaml(all);
  const Node* part = find_in(all, line.package);
  if (part != nullptr) return dlio_yaml(*part);
  return fail(ErrorCode::kInvalidArgument, "--package: there is no '{}'", line.package);
}

std::string information(const DlioConfig& config) {
  std::string text = fmt::format("workload  {}\nresults   {}\n", config.workload, config.run_dir);
  if (!config.output_subdir.empty())
    text += fmt::format("config    {}/{}\n", config.run_dir, config.output_subdir);
  text += fmt::format("from      {}\n", fmt::join(config.sources, "\n          "));
  if (!config.task_overrides.empty())
    text += fmt::format("overrides {}\n", fmt::join(config.task_overrides, "\n          "));
  return text + "\n" + dlio_yaml(config.root);
}

// As it was typed, for the record, but for secrets.
std::string command_text(std::string_view name, std::span<const char* const> words) {
  std::string text(name);
  for (const char* word : words) {
    const std::string shown = workload::shown_override(word);
    const std::string_view view = shown;
    const bool is_plain = view.find_first_of(" \t\n'\"\\$&|;<>()*?{}[]#!`~") == view.npos;
    text += ' ';
    if (is_plain && !view.empty()) {
      text += view;
      continue;
    }
    text += '\'';
    for (const char c : view) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

// "reader.batch_size" however it was spelled.
Result<std::string> queried_key(const DlioConfig& config) {
  const Node* query = find_in(config.resolved, "workload.workflow.query");
  if (query == nullptr || query->kind != Node::Kind::kScalar || query->text.empty())
    return fail(ErrorCode::kInvalidArgument,
                "which key? Give ++workload.workflow.query=KEY, for example "
                "dataset.num_files_train");
  const std::string key =
      query->text.starts_with("workload.") ? query->text.substr(9) : query->text;
  return key;
}

Result<std::string> value_of(const workload::Resolved& resolved, const std::string& key) {
  std::vector<std::string_view> known;
  for (const workload::Setting& setting : resolved.settings) {
    if (setting.key == key) {
      const Node value = FB_TRY(workload::parse_document(setting.value, key));
      return python_text(value);
    }
    if (setting.key.starts_with(key + "."))
      return fail(ErrorCode::kInvalidArgument,
                  "workload.workflow.query: '{}' is a section; ask for one of its keys, such as {}",
                  key, setting.key);
    known.push_back(setting.key);
  }
  const std::string nearest = base::nearest_name(key, known);
  return fail(ErrorCode::kInvalidArgument, "workload.workflow.query: there is no key '{}'{}", key,
              nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

// The flags of `forebay run` that were given, as that command would have read them.
Result<Arguments> run_arguments(const DlioCommandLine& line) {
  std::vector<const char*> words;
  for (const std::string& flag : line.run_flags) words.push_back(flag.c_str());
  words.push_back("workload");  // what that command needs and the configuration says here
  return parse(kRun, words);
}

Result<workload::Resolved> resolved_workload(const Arguments& flags, const DlioConfig& config) {
  workload::ResolveOptions options;
  options.compat = *workload::compat_from_name(*flags.get("--compat"));  // one of its choices
  options.is_dlio_command = true;
  return workload::resolve_layers(config.workload, config.layers, options);
}

// Everything but the run.
Result<int> show(const DlioCommandLine& line) {
  std::string text;
  if (line.action == Action::kShowHelp) {
    text = dlio_help();
  } else if (line.action == Action::kShowVersion) {
    text = fmt::format("dlio_benchmark (Forebay) {}\n", kVersion);
  } else {
    const DlioConfig config = FB_TRY(compose_dlio_config(line, now_us()));
    text = line.action == Action::kShowInfo ? information(config)
                                            : FB_TRY(shown_configuration(line, config));
  }
  if (is_first_launched()) FB_TRY(print(text));
  return kExitDone;
}

Result<DlioJob> read_job(const DlioCommandLine& line) {
  DlioJob job;
  job.config = FB_TRY(compose_dlio_config(line, now_us()));
  const Arguments flags = FB_TRY(run_arguments(line));
  job.request.resolved = FB_TRY(resolved_workload(flags, job.config));
  job.request.options = FB_TRY(read_run_options(flags, job.request.resolved));
  job.request.version = kVersion;
  return job;
}

}  // namespace

Result<int> dlio_benchmark(std::span<const char* const> words) {
  const Result<DlioCommandLine> line = parse_dlio_command_line(words);
  if (line.ok() && line->action != Action::kEmulate) return show(*line);
  sys::StopSignal signal;
  // Mistakes too are found in there: of several processes one reports them.
  return with_processes(signal.token(), [&](cluster::World& world) -> Result<int> {
    if (!line.ok()) return line.error();
    DlioJob job = FB_TRY(read_job(*line));
    job.request.world = &world;
    emulate::Items items{{"the command", "dlio_benchmark"}};
    const emulate::Items more = emulate::items_of(job.request);
    items.insert(items.end(), more.begin(), more.end());
    FB_TRY(emulate::agree_on(items, world, signal.token()));
    job.request.command = command_text("dlio_benchmark", words);
    if (world.size() > 1)
      job.request.command = fmt::format("mpirun -np {} {}", world.size(), job.request.command);
    job.request.next_base = job.request.command;
    job.request.resolved.generate_command =
        job.request.command +
        " ++workload.workflow.generate_data=True ++workload.workflow.train=False";
    return run_dlio(job, signal.token());
  });
}

Result<int> dlio_benchmark_query(std::span<const char* const> words) {
  const DlioCommandLine line = FB_TRY(parse_dlio_command_line(words));
  if (line.action != Action::kEmulate) return show(line);
  const DlioConfig config = FB_TRY(compose_dlio_config(line, now_us()));
  const Arguments flags = FB_TRY(run_arguments(line));
  const workload::Resolved resolved = FB_TRY(resolved_workload(flags, config));
  const std::string key = FB_TRY(queried_key(config));
  const std::string value = FB_TRY(value_of(resolved, key));
  if (is_first_launched()) FB_TRY(print(value + "\n"));
  return kExitDone;
}

}  // namespace forebay::cli
