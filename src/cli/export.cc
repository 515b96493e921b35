// forebay export: a recording in the format of another tool.
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/output_file.h"
#include "cli/recordings.h"
#include "trace/export.h"

namespace forebay::cli {
namespace {

constexpr std::array<Positional, 1> kPositionals{{
    {.name = "RECORDING",
     .summary = "a folder of forebay record, a .fbt file, or another tool's trace; default: the "
                "newest forebay-NNNN"},
}};

constexpr std::array<std::string_view, 4> kFormats{"perfetto", "chrome", "sqlite", "csv"};

constexpr std::array<Flag, 2> kFlags{{
    {.name = "--to",
     .value = "FORMAT",
     .fallback = "perfetto",
     .summary = "what to write",
     .detail = "perfetto: .pftrace for ui.perfetto.dev and its SQL. chrome: trace JSON. sqlite: "
               "tables of tracks, events, arguments and facts. csv: one line an event.",
     .choices = kFormats},
    {.name = "--output",
     .value = "FILE",
     .summary = "default: the recording's name with the format's suffix; - = stdout",
     .detail = "Folders of its path are made; a file of that name is replaced."},
}};

constexpr std::array<std::string_view, 2> kExamples{
    "forebay export --to sqlite",
    "forebay export forebay-0007 --to perfetto --output step.pftrace",
};

std::string default_output(const std::string& path, const trace::Exporter& exporter) {
  std::string base = path;
  while (base.size() > 1 && base.ends_with('/')) base.pop_back();
  if (base.ends_with(".fbt")) base.resize(base.size() - 4);
  return base + std::string(exporter.suffix);
}

Status write_file(const LoadedRecording& loaded, const trace::Exporter& exporter,
                  const std::string& path) {
  if (exporter.write == nullptr) {
    return exporter.write_file(loaded.recording, FB_TRY(output_target(path, loaded.sources)));
  }
  OutputFile file = FB_TRY(OutputFile::open(path, loaded.sources));
  FB_TRY(exporter.write(loaded.recording, [&](std::string_view text) { return file.write(text); }));
  return file.finish();
}

Result<int> run(const Arguments& arguments) {
  const trace::Exporter& exporter = *trace::find_exporter(*arguments.get("--to"));
  const LoadedRecording loaded =
      FB_TRY(load_recording_or_newest(arguments.get("RECORDING").value_or("")));
  const std::string output =
      arguments.get("--output").value_or(default_output(loaded.path, exporter));
  if (output == "-" && exporter.write == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "--to {} writes a file, not to stdout", exporter.name);
  }
  FB_TRY(told_what_next(write_file(loaded, exporter, output)));
  if (output != "-") {
    FB_TRY(
        print(fmt::format("{}: {} of {}\n", output,
                          base::format_counted(loaded.recording.size(), "events"), loaded.path)));
  }
  return kExitDone;
}

}  // namespace

const Command kExport{.name = "export",
                      .group = "understand",
                      .summary = "write a recording for another tool",
                      .detail =
                          "Reads a recording and writes it for Perfetto, as Chrome trace JSON, "
                          "as an SQLite database or as CSV.",
                      .positionals = kPositionals,
                      .flags = kFlags,
                      .run = run,
                      .examples = kExamples};

}  // namespace forebay::cli
