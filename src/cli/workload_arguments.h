// What generate and run both read from their arguments.
//
// One thread.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "cli/flags.h"
#include "forebay/result.h"
#include "workload/workload.h"

namespace forebay::cli {

// The workload and its overrides from the positionals WORKLOAD and KEY=VALUE.
Result<workload::Resolved> resolve_arguments(const Arguments& arguments);

// --data (kInvalidArgument when empty), or storage.storage_root joined with dataset.data_folder: a
// folder, or s3://BUCKET/PREFIX.
Result<std::string> data_folder(const Arguments& arguments, const workload::Resolved& resolved);

// The command line again, ready for a shell, but for the flags named; values of secret keys are
// ***.
std::string command_line(const Arguments& arguments,
                         std::span<const std::string_view> without = {});

// Makes what is missing of the workload's data set, with progress on a terminal.
Status generate_data(const workload::Resolved& resolved, const std::string& folder, int threads,
                     bool quiet, std::stop_token stop);

// dataset.keep_files: False: removes the files that generate_data makes, and nothing else.
Status remove_data(const workload::Resolved& resolved, const std::string& folder);

}  // namespace forebay::cli
