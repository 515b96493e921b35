// What generate and run both read from their arguments.
//
// One thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "cli/flags.h"
#include "emulate/agreement.h"
#include "forebay/result.h"
#include "workload/workload.h"

namespace forebay::cluster {
class World;
}

namespace forebay::cli {

constexpr std::array<std::string_view, 3> kCompats{"dlio-main", "mlps-v2.0", "mlps-v3.0"};
constexpr std::array<std::string_view, 4> kRuleSets{"mlperf-v2.0", "mlperf-v3.0", "v2.0", "v3.0"};
constexpr Flag kCompatFlag{
    .name = "--compat",
    .value = "NAME",
    .fallback = "dlio-main",
    .summary = "whose defaults and file layouts hold where DLIOs differ",
    .detail =
        "dlio-main is DLIO itself, mlps-v2.0 and mlps-v3.0 are what MLPerf Storage uses. It "
        "decides how hdf5 and csv files are laid out when they are made, what "
        "dataset.enable_chunking means, and with mlps-v3.0 that --payload bytes and --cache "
        "cold are the defaults. Defects of theirs are not repeated (docs/dlio-keys.md).",
    .choices = kCompats};

// The workload and its overrides from the positionals WORKLOAD and KEY=VALUE, under --compat.
Result<workload::Resolved> resolve_arguments(const Arguments& arguments);

// --data (kInvalidArgument when empty), or what the workload says: a folder, or s3://BUCKET/PREFIX.
Result<std::string> data_folder(const Arguments& arguments, const workload::Resolved& resolved);

// storage.storage_root joined with dataset.data_folder.
Result<std::string> data_folder(const workload::Workload& workload);

// The command line again, ready for a shell, but for the flags named; values of secret keys are
// ***.
std::string command_line(const Arguments& arguments,
                         std::span<const std::string_view> without = {});

// That all processes of `world` were started for the same: the command, each of its flags but those
// that may differ from process to process, and `more`. Errors as emulate::agree_on().
Status agree_on_command(const Arguments& arguments, std::span<const std::string_view> may_differ,
                        const emulate::Items& more, cluster::World& world, std::stop_token stop);

// Makes what is missing of the workload's data set, with progress on a terminal. In a world of
// several processes each makes its share; all return when all files are there.
Status generate_data(const workload::Resolved& resolved, const std::string& folder, int threads,
                     bool quiet, std::stop_token stop, cluster::World* world = nullptr);

// dataset.keep_files: False: removes the files that generate_data makes, and nothing else.
Status remove_data(const workload::Resolved& resolved, const std::string& folder);

}  // namespace forebay::cli
