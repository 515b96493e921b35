// The configuration that a DLIO command line asks for, put together as Hydra does it: a primary
// file, a workload's file, overrides on top.
//
// One thread. Values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/dlio_command_line.h"
#include "forebay/result.h"
#include "workload/document.h"
#include "workload/workload.h"

namespace forebay::cli {

// Values of secret keys stand in `layers` alone; in all else they are ***.
struct DlioConfig {
  workload::Node root;      // "workload:" and what is in it; interpolations stand as written
  workload::Node resolved;  // the same without interpolations
  workload::Node hydra;     // Hydra's own settings
  std::string workload;     // the name chosen
  std::vector<std::string> task_overrides;  // all but Hydra's own, as they may be shown
  std::vector<std::string> sources;         // files and built-ins, in the order they were laid
  std::vector<workload::Layer> layers;      // of `resolved`, for workload::resolve_layers
  std::vector<std::string> warnings;
  std::string run_dir;
  std::string output_subdir;  // "" = the configuration is not written
};

// ${now:...} gives `now_us`, microseconds since 1970 in local time. Errors are kInvalidArgument or
// kUnsupported and name the override or the file and line.
Result<DlioConfig> compose_dlio_config(const DlioCommandLine& line, int64_t now_us);

}  // namespace forebay::cli
