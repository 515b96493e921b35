// forebay generate: makes a workload's synthetic data set.
#include <array>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/processes.h"
#include "cli/stop_deadline.h"
#include "cli/version.h"
#include "cli/workload_arguments.h"
#include "sys/stop_signal.h"

namespace forebay::cli {
namespace {

constexpr std::array<Positional, 2> kPositionals{{
    {.name = "WORKLOAD",
     .summary = "a built-in (forebay list workloads) or a YAML file",
     .required = true},
    {.name = "KEY=VALUE",
     .summary = "overrides, for example dataset.num_files_train=100",
     .repeats = true},
}};

constexpr std::array<Flag, 5> kFlags{{
    {.name = "--data",
     .value = "DIR",
     .summary = "folder or s3://BUCKET/PREFIX (default: dataset.data_folder)"},
    {.name = "--threads",
     .value = "N",
     .fallback = "0",
     .summary = "writers; 0 = reader.write_threads, or one per CPU"},
    kCompatFlag,
    {.name = "--dry-run", .summary = "print the resolved workload and stop"},
    {.name = "--quiet", .summary = "no progress and no summary"},
}};

constexpr std::array<std::string_view, 2> kExamples{
    "forebay generate unet3d_h100 --data /mnt/d",
    "forebay generate demo dataset.num_files_train=100 --data /tmp/d",
};

Result<int> generate_here(const Arguments& arguments, cluster::World& world, StopDeadline& deadline,
                          std::stop_token stop) {
  const workload::Resolved resolved = FB_TRY(resolve_arguments(arguments));
  if (resolved.workload.workflow.is_checkpoint_only())
    return fail(ErrorCode::kInvalidArgument,
                "{} only saves and restores checkpoints, whose bytes are made while they are "
                "written: forebay run {}",
                resolved.workload.name, resolved.workload.name);
  static constexpr std::array<std::string_view, 3> kMayDiffer{"--data", "--threads", "--quiet"};
  FB_TRY(
      agree_on_command(arguments, kMayDiffer, emulate::items_of(resolved, kVersion), world, stop));
  if (arguments.has("--dry-run")) {
    if (speaks(world)) FB_TRY(print(workload::to_yaml(resolved)));
    return kExitDone;
  }
  if (speaks(world))
    for (const std::string& warning : resolved.warnings) talk("note    " + warning + "\n");
  const std::string folder = FB_TRY(data_folder(arguments, resolved));
  const int threads = static_cast<int>(FB_TRY(arguments.integer("--threads", 0, 1024)));
  deadline.hold();
  const StopDeadline writing(stop, nullptr, &world, work_grace({&folder, 1}));
  FB_TRY(generate_data(resolved, folder, threads, arguments.has("--quiet") || !speaks(world),
                       std::move(stop), &world));
  return kExitDone;
}

Result<int> run(const Arguments& arguments) {
  sys::StopSignal signal;
  return with_processes(signal.token(), [&](cluster::World& world) {
    StopDeadline deadline(signal.token(), nullptr, &world);
    return generate_here(arguments, world, deadline, signal.token());
  });
}

}  // namespace

const Command kGenerate{
    .name = "generate",
    .group = "prepare",
    .summary = "make a synthetic dataset",
    .detail =
        "Writes files with DLIO's names, layout and sizes. A run that was stopped half-way "
        "continues where it was: a file with its final name is whole. Free space is checked "
        "before the first byte. Under mpirun every process makes its share of the files, in a "
        "folder that all of them see.",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run,
    .examples = kExamples};

}  // namespace forebay::cli
