#include "cli/dlio_command_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "workload/builtin_yaml.h"

namespace forebay::cli {
namespace {

struct Option {
  std::string_view name, letters;  // "--config-dir", "-cd"
  std::string_view value;          // "DIR"; empty for a switch
  std::string_view summary;
  std::string_view refusal = {};  // why it cannot be done; empty: it can
};

constexpr std::string_view kNoSweeps =
    "sweeps over several configurations are not done; start one run for each";

constexpr std::array<Option, 16> kOptions{{
    {"--help", "-h", "", "this text"},
    {"--version", "", "", "the version of Forebay"},
    {"--config-dir", "-cd", "DIR", "where DIR/workload/NAME.yaml is looked up first"},
    {"--config-path", "-cp", "DIR", "the same, and DIR/config.yaml in place of the built-in one"},
    {"--config-name", "-cn", "NAME", "that file's name instead of config"},
    {"--cfg", "-c", "WHAT", "print the configuration and stop: job, hydra or all"},
    {"--resolve", "", "", "with --cfg: interpolations replaced"},
    {"--package", "-p", "KEY", "with --cfg: this part alone"},
    {"--info", "-i", "[WHAT]", "print where everything comes from, and stop"},
    {"--run", "-r", "", "what happens anyway"},
    {"--multirun", "-m", "", "", kNoSweeps},
    {"--hydra-help", "", "", "", "Hydra itself is not used; try --help"},
    {"--shell-completion", "-sc", "", "", "there is none for this command line"},
    {"--experimental-rerun", "", "FILE", "", "give the overrides of the earlier run again"},
    {"--install", "", "", "", "there is nothing to install"},
    {"--query", "", "", "", "that is ++workload.workflow.query=KEY with dlio_benchmark_query"},
}};

// Of `forebay run`, but for those that the overrides or DLIO's ways replace.
bool is_run_flag(const Flag& flag) {
  static constexpr std::array<std::string_view, 8> kReplaced{
      "--data", "--out",   "--trace",  "--find-max-accelerators", "--max-accelerators",
      "--json", "--quiet", "--dry-run"};
  return std::find(kReplaced.begin(), kReplaced.end(), flag.name) == kReplaced.end();
}

const Flag* find_run_flag(std::string_view name) {
  for (const Flag& flag : kRun.flags)
    if (flag.name == name && is_run_flag(flag)) return &flag;
  return nullptr;
}

const Option* find_option(std::string_view name) {
  for (const Option& option : kOptions)
    if (option.name == name || (!option.letters.empty() && option.letters == name)) return &option;
  return nullptr;
}

Error unknown_option(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Option& option : kOptions)
    if (option.refusal.empty()) known.push_back(option.name);
  for (const Flag& flag : kRun.flags)
    if (is_run_flag(flag)) known.push_back(flag.name);
  const std::string nearest = base::nearest_name(name, known);
  return fail(ErrorCode::kInvalidArgument, "there is no option '{}'{} (all: dlio_benchmark --help)",
              name, nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

class Parser {
 public:
  explicit Parser(std::span<const char* const> words) : words_(words) {}

  Result<DlioCommandLine> run() {
    while (at_ < words_.size()) {
      const std::string_view word = words_[at_++];
      if (word.size() > 1 && word[0] == '-')
        FB_TRY(option(word));
      else
        made_.overrides.push_back(FB_TRY(parse_dlio_override(word)));
    }
    return std::move(made_);
  }

 private:
  Status option(std::string_view word) {
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const Option* option = find_option(name);
    if (option == nullptr) {
      const Flag* flag = find_run_flag(name);
      return flag == nullptr ? unknown_option(name) : run_flag(word, *flag);
    }
    if (!option->refusal.empty())
      return fail(ErrorCode::kUnsupported, "{}: {}", option->name, option->refusal);
    const bool is_optional = option->value.starts_with('[');
    std::string value;
    if (equals != std::string_view::npos) {
      if (option->value.empty())
        return fail(ErrorCode::kInvalidArgument, "{} takes no value", option->name);
      value = word.substr(equals + 1);
    } else if (!option->value.empty() && !is_optional) {
      if (at_ == words_.size())
        return fail(ErrorCode::kInvalidArgument, "{} needs a value: {} {}", option->name,
                    option->name, option->value);
      value = words_[at_++];
    } else if (is_optional && at_ < words_.size() && is_info_topic(words_[at_])) {
      ++at_;
    }
    return apply(option->name, value);
  }

  Status run_flag(std::string_view word, const Flag& flag) {
    std::string text(word);
    if (!flag.value.empty() && word.find('=') == std::string_view::npos) {
      if (at_ == words_.size())
        return fail(ErrorCode::kInvalidArgument, "{} needs a value: {} {}", flag.name, flag.name,
                    flag.value);
      text += fmt::format("={}", words_[at_++]);
    }
    made_.run_flags.push_back(std::move(text));
    return {};
  }

  static bool is_info_topic(std::string_view word) {
    return word == "all" || word == "config" || word == "defaults" || word == "defaults-tree" ||
           word == "plugins" || word == "searchpath";
  }

  Status apply(std::string_view name, const std::string& value) {
    using Action = DlioCommandLine::Action;
    if (name == "--help") made_.action = Action::kHelp;
    if (name == "--version") made_.action = Action::kVersion;
    if (name == "--info") made_.action = Action::kShowInfo;
    if (name == "--resolve") made_.is_resolved = true;
    if (name == "--config-dir") made_.config_dir = value;
    if (name == "--config-path") made_.config_path = value;
    if (name == "--package") made_.package = value;
    if (name == "--config-name")
      made_.config_name = value.ends_with(".yaml") ? value.substr(0, value.size() - 5) : value;
    if (name == "--cfg") {
      if (value != "job" && value != "hydra" && value != "all")
        return fail(ErrorCode::kInvalidArgument, "--cfg is one of job, hydra, all, not '{}'",
                    value);
      made_.action = Action::kShowConfig;
      made_.shown = value;
    }
    return {};
  }

  std::span<const char* const> words_;
  size_t at_ = 0;
  DlioCommandLine made_;
};

}  // namespace

Result<DlioCommandLine> parse_dlio_command_line(std::span<const char* const> words) {
  std::vector<std::string> added;
  if (const char* flags = std::getenv("FOREBAY_FLAGS"))
    for (const std::string_view word : base::split(flags, ' '))
      if (!base::trim(word).empty()) added.emplace_back(base::trim(word));
  std::vector<const char*> all;
  for (const std::string& word : added) all.push_back(word.c_str());
  all.insert(all.end(), words.begin(), words.end());
  return Parser(all).run();
}

std::string dlio_help() {
  std::string text =
      "dlio_benchmark: Forebay with the command line of DLIO\n"
      "usage: dlio_benchmark [options] workload=NAME [++workload.KEY=VALUE ...]\n"
      "       mpirun -np N dlio_benchmark ...          one emulated accelerator per process\n"
      "       dlio_benchmark_query workload=NAME ++workload.workflow.query=KEY\n\n"
      "overrides\n"
      "  ++workload.KEY=VALUE       sets a key\n"
      "  workload.KEY=VALUE         the same for a key that the workload's file has\n"
      "  +workload.KEY=VALUE        the same for a key that it lacks\n"
      "  ~workload.KEY              removes a key\n"
      "  ++hydra.run.dir=DIR        where the results go\n"
      "  ++hydra.output_subdir=DIR  where in there the configuration goes; null: nowhere\n"
      "  values: text, 'any text', 1, 2.5, true, null, [a, b], {k: v}, ${workload.model.name}\n\n"
      "options\n";
  for (const Option& option : kOptions) {
    if (!option.refusal.empty()) continue;
    std::string left(option.name);
    if (!option.letters.empty()) left += fmt::format(", {}", option.letters);
    if (!option.value.empty()) left += fmt::format(" {}", option.value);
    text += fmt::format("  {:<26} {}\n", left, option.summary);
  }
  text += "\noptions of `forebay run`, also from the environment's FOREBAY_FLAGS\n";
  for (const Flag& flag : kRun.flags)
    if (is_run_flag(flag))
      text +=
          fmt::format("  {:<26} {}\n", fmt::format("{} {}", flag.name, flag.value), flag.summary);
  text += "\nworkloads\n ";
  size_t column = 1;
  for (const workload::BuiltinYaml& builtin : workload::builtin_yaml()) {
    if (column + builtin.name.size() > 96) {
      text += "\n ";
      column = 1;
    }
    text += fmt::format(" {}", builtin.name);
    column += 1 + builtin.name.size();
  }
  return text +
         "\n\nkeys: forebay help KEY. Environment: DLIO_LOG_LEVEL=error|warning|info|debug.\n"
         "Exit codes: 0 the run ended, whatever its AU; 1 failed; 2 bad usage; 130 interrupted.\n";
}

}  // namespace forebay::cli
