// forebay inspect: describes a file or a folder of data.
#include <array>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/stop_deadline.h"
#include "emulate/inspection.h"
#include "report/inspection.h"
#include "sys/stop_signal.h"

namespace forebay::cli {
namespace {

constexpr std::array<Positional, 1> kPositionals{{
    {.name = "PATH", .summary = "a file or a folder, also at s3://BUCKET/...", .required = true},
}};

constexpr std::array<Flag, 5> kFlags{{
    {.name = "--check",
     .summary = "read and decode every sample",
     .detail = "Verifies every checksum the format has and names each bad record. Exit code 1 when "
               "there is one."},
    {.name = "--format", .value = "NAME", .summary = "default: what most files are"},
    {.name = "--record-bytes",
     .value = "SIZE",
     .fallback = "0",
     .summary = "raw: size of one record; 0 = a file is one"},
    {.name = "--threads", .value = "N", .fallback = "0", .summary = "for --check; 0 = one per CPU"},
    {.name = "--json", .summary = "print as JSON"},
}};

constexpr std::array<std::string_view, 2> kExamples{
    "forebay inspect ~/photos",
    "forebay inspect /mnt/d/train --check",
};

Result<int> run(const Arguments& arguments) {
  sys::StopSignal signal;
  const StopDeadline deadline(signal.token(), nullptr);
  emulate::InspectionOptions options;
  options.format = arguments.get("--format").value_or("");
  options.record_bytes = FB_TRY(arguments.bytes("--record-bytes"));
  options.check_all = arguments.has("--check");
  options.threads = static_cast<int>(FB_TRY(arguments.integer("--threads", 0, 1024)));
  const auto progress = [](uint64_t done, uint64_t total) {
    if (done % 256 == 0 || done == total)
      show_progress(fmt::format("checked {} of {}", done, base::format_counted(total, "samples")));
  };
  const emulate::Inspection inspection =
      FB_TRY(emulate::inspect(*arguments.get("PATH"), options, progress, signal.token()));
  FB_TRY(print(arguments.has("--json") ? report::inspection_json(inspection)
                                       : report::inspection_text(inspection)));
  return inspection.bad_count > 0 ? kExitFailed : kExitDone;
}

}  // namespace

const Command kInspect{.name = "inspect",
                       .group = "prepare",
                       .summary = "describe files or datasets",
                       .detail =
                           "Prints format, files, samples, sizes as a histogram, and problems: "
                           "stray files, loops, unreadable folders, damaged records.",
                       .positionals = kPositionals,
                       .flags = kFlags,
                       .run = run,
                       .examples = kExamples};

}  // namespace forebay::cli
