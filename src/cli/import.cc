// forebay import: traces of other tools to a recording.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/import_text.h"
#include "ingest/builtin.h"
#include "ingest/import.h"
#include "record/recording_folder.h"
#include "sys/directory.h"

namespace forebay::cli {
namespace {

constexpr std::array<Positional, 1> kPositionals{{
    {.name = "PATH",
     .summary = "a trace, or a folder of them: the ranks of one job",
     .required = true,
     .repeats = true},
}};

constexpr std::array<Flag, 2> kFlags{{
    {.name = "--output",
     .value = "FOLDER",
     .summary = "default: forebay-NNNN, the next free number"},
    {.name = "--json", .summary = "print as JSON"},
}};

constexpr std::array<std::string_view, 3> kExamples{
    "forebay import trace.json.gz",
    "forebay import traces/ --output recording",
    "forebay import rank_0.json rank_1.json",
};

std::string json_of(const ingest::Imported& imported, const std::string& folder) {
  using Json = nlohmann::ordered_json;
  Json files = Json::array();
  for (const ingest::ImportedFile& file : imported.files) {
    Json each{{"source", file.source},
              {"format", file.format},
              {"trace", file.trace},
              {"rank", file.rank >= 0 ? Json(file.rank) : Json(nullptr)},
              {"source_bytes", file.source_bytes},
              {"trace_bytes", file.trace_bytes},
              {"events", file.events},
              {"damage", file.account.damage ? Json(*file.account.damage) : Json(nullptr)},
              {"skipped", Json::object()},
              {"mended", Json::object()}};
    for (const auto& [reason, count] : file.account.skipped) each["skipped"][reason] = count;
    for (const auto& [reason, count] : file.account.repaired) each["mended"][reason] = count;
    files.push_back(std::move(each));
  }
  Json passed_over = Json::array();
  for (const ingest::PassedOver& each : imported.passed_over) {
    passed_over.push_back({{"path", each.path}, {"reason", each.reason}});
  }
  const Json out{{"schema_version", 1},
                 {"folder", folder},
                 {"files", std::move(files)},
                 {"passed_over", std::move(passed_over)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<int> run(const Arguments& arguments) {
  const std::vector<std::string> paths = arguments.all("PATH");
  const record::RecordingFolder made =
      FB_TRY(record::make_recording_folder(arguments.get("--output").value_or(""), std::nullopt));
  const std::string& folder = made.path;
  ingest::ImportOptions options{.folder = folder, .version = FOREBAY_VERSION};
  options.progress = [](const std::string& path) { show_progress("importing " + path); };
  auto imported = ingest::import(paths, options);
  show_progress("");
  if (!imported.ok()) {
    if (made.is_new) sys::remove_empty_folder(folder);
    return imported.error();
  }
  FB_TRY(
      print(arguments.has("--json") ? json_of(*imported, folder) : import_text(*imported, folder)));
  return kExitDone;
}

}  // namespace

const Command kImport{
    .name = "import",
    .group = "understand",
    .summary = "read traces of other tools",
    .detail =
        "Reads torch.profiler (Kineto) and Chrome JSON, Nsight Systems SQLite, DFTracer, "
        "strace, perf script, darshan-parser and darshan-dxt-parser text, DLIO output "
        "folders, nvidia-smi CSV and SOFA's CSV, plain or gzip, each recognised by its "
        "content. Several files are one recording; of a folder without traces those of "
        "the folders inside it. What is no trace is passed over, what cannot be read is "
        "counted by reason; damaged files are read as far as they go.",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run,
    .examples = kExamples};

}  // namespace forebay::cli
