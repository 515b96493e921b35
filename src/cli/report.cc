// forebay report: a recording or a result as one offline page.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/output_file.h"
#include "cli/recordings.h"
#include "cli/result_folder.h"
#include "cli/version.h"
#include "explain/explain.h"
#include "report/explanation_json.h"
#include "report/page.h"

namespace forebay::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<Positional, 1> kPositionals{{
    {.name = "RECORDING",
     .summary = "a folder of forebay record or run, a .fbt file, or another tool's trace; default: "
                "the newest forebay-NNNN"},
}};

constexpr std::array<Flag, 3> kFlags{{
    {.name = "--against",
     .value = "RECORDING",
     .summary = "another one of the same kind to compare with",
     .detail = "The page then shows what grew and what shrank since that one."},
    {.name = "--output",
     .value = "FILE",
     .summary = "default: report.html in the folder of the recording; - = stdout"},
    {.name = "--events-max",
     .value = "N",
     .fallback = "1000000",
     .summary = "events that the timeline draws at most",
     .detail =
         "Of more, the longest of neighbours are kept, and the page says how many of how many "
         "it shows. Its other figures cover all events."},
}};

constexpr std::array<std::string_view, 3> kExamples{
    "forebay report",
    "forebay report results/unet3d_h100-0003 --against results/unet3d_h100-0002",
    "forebay report forebay-0007 --output slow-epoch.html",
};

// What one page can be made of: a run's result, a recording, or both beside each other.
struct Subject {
  std::string path;
  std::string result;  // the text of result.json, or empty
  std::optional<trace::Recording> recording;
  std::vector<std::string> sources;  // the files it was read from
  const trace::Recording* events() const { return recording ? &*recording : nullptr; }
};

bool has_trace_file(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".fbt") return true;
  return false;
}

void take(Subject& subject, LoadedRecording loaded) {
  subject.recording = std::move(loaded.recording);
  for (std::string& source : loaded.sources) subject.sources.push_back(std::move(source));
}

Result<Subject> load_subject(const std::string& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const bool is_result_file = fs::path(path).filename() == "result.json";
  Subject subject{.path = path, .result = {}, .recording = {}, .sources = {path}};
  std::string folder = path;
  if (is_result_file)
    folder = fs::path(path).parent_path().empty() ? "." : fs::path(path).parent_path().string();
  if (is_result_file || (is_folder && fs::exists(fs::path(path) / "result.json", error))) {
    subject.result = FB_TRY(read_result(path));
    subject.sources.push_back((fs::path(folder) / "result.json").string());
    if (has_trace_file(folder)) take(subject, FB_TRY(load_recording(folder)));
    return subject;
  }
  LoadedRecording loaded = FB_TRY(load_recording_or_newest(path));
  subject.path = loaded.path;
  take(subject, std::move(loaded));
  return subject;
}

std::string default_output(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return (fs::path(path) / "report.html").string();
  if (fs::path(path).filename() == "result.json")
    return (fs::path(path).parent_path() / "report.html").string();
  const std::string base = path.ends_with(".fbt") ? path.substr(0, path.size() - 4) : path;
  return base + ".report.html";
}

// What `explain --json` prints of the recording; empty when there is none.
Result<std::string> explain_subject(Subject& subject, std::optional<Subject>& against) {
  if (!subject.recording) return std::string();
  explain::Explained explained =
      FB_TRY(explain::explain(*subject.recording, {}).context(subject.path));
  if (against && against->recording) {
    const explain::Explained before =
        FB_TRY(explain::explain(*against->recording, {}).context(against->path));
    explained.explanation.comparison =
        explain::compare(before.measured, explained.measured, against->path);
  }
  return report::explanation_json(explained.explanation);
}

Result<int> run(const Arguments& arguments) {
  const int64_t events_max = FB_TRY(arguments.integer("--events-max", 1000, 100'000'000));
  Subject subject = FB_TRY(load_subject(arguments.get("RECORDING").value_or("")));
  std::optional<Subject> against;
  if (const auto path = arguments.get("--against")) {
    against = FB_TRY(load_subject(*path));
    if (against->result.empty() != subject.result.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "{} and {}: a run's result compares with a result, a recording with a recording",
                  subject.path, against->path);
  }
  const std::string explanation = FB_TRY(explain_subject(subject, against));
  report::PageInput input{.title = subject.path,
                          .version = kVersion,
                          .explanation = explanation,
                          .result = subject.result,
                          .result_against = against ? against->result : std::string(),
                          .recording = subject.events(),
                          .against = against ? against->events() : nullptr,
                          .against_title = against ? against->path : std::string(),
                          .timeline = {.events_max = static_cast<uint64_t>(events_max)}};
  const std::string output = arguments.get("--output").value_or(default_output(subject.path));
  std::vector<std::string> sources = subject.sources;
  if (against) sources.insert(sources.end(), against->sources.begin(), against->sources.end());
  OutputFile file = FB_TRY(OutputFile::open(output, sources));
  const auto write = [&](std::string_view text) { return file.write(text); };
  FB_TRY(told_what_next(report::write_page(input, write)));
  FB_TRY(told_what_next(file.finish()));
  if (output != "-") FB_TRY(print(output + "\n"));
  return kExitDone;
}

}  // namespace

const Command kReport{
    .name = "report",
    .group = "understand",
    .summary = "write the offline page of a recording or a result",
    .detail =
        "One HTML file: where the time went, a timeline that zooms, a flame graph, "
        "files, histograms, hosts and the configuration. It opens without a "
        "network and sends nothing anywhere.",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run,
    .examples = kExamples};

}  // namespace forebay::cli
