// The options and overrides of dlio_benchmark, as Hydra's own programs take them.
//
// Values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/dlio_override.h"
#include "forebay/result.h"

namespace forebay::cli {

struct DlioCommandLine {
  enum class Action { kRun, kHelp, kVersion, kShowConfig, kShowInfo };
  Action action = Action::kRun;
  std::string shown = "job";  // kShowConfig: job | hydra | all
  std::string package;        // kShowConfig: the part that is shown; "" = all
  bool is_resolved = false;   // kShowConfig: interpolations replaced
  std::string config_dir, config_path;
  std::string config_name = "config";
  std::vector<DlioOverride> overrides;
  std::vector<std::string> run_flags;  // of `forebay run`: "--payload=bytes"
};

// Words of the environment's FOREBAY_FLAGS come first, for programs that write the command line
// themselves. kInvalidArgument names the nearest option; kUnsupported for --multirun and its like.
Result<DlioCommandLine> parse_dlio_command_line(std::span<const char* const> words);

std::string dlio_help();

}  // namespace forebay::cli
