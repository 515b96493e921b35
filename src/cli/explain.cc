// forebay explain: where the time of a recorded program went, and what to change.
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/recordings.h"
#include "explain/explain.h"
#include "report/explanation_json.h"
#include "report/explanation_text.h"

namespace forebay::cli {
namespace {

constexpr std::array<Positional, 1> kPositionals{{
    {.name = "RECORDING",
     .summary = "folder or file of events; default: the newest ./forebay-NNNN"},
}};

constexpr std::array<Flag, 6> kFlags{{
    {.name = "--against",
     .value = "RECORDING",
     .summary = "an earlier recording: what grew, what shrank",
     .detail = "Signed differences per iteration of the whole, its parts and each group of "
               "functions, with the Mann-Whitney test's p and how many iterations it rests on."},
    {.name = "--marks",
     .value = "NAME",
     .summary = "ranges or instants of this name are the iterations",
     .detail = "Default: what the program marks as step, iteration or ProfilerStep; without marks "
               "iterations are found from the pattern of events."},
    {.name = "--rank", .value = "LIST", .summary = "only these ranks: 0 or 0,4-7"},
    {.name = "--process", .value = "SELECT", .summary = "only processes with this pid or name"},
    {.name = "--all", .summary = "every rule, also those that do not apply, and longer tables"},
    {.name = "--json", .summary = "print everything as JSON"},
}};

constexpr std::array<std::string_view, 3> kExamples{
    "forebay explain",
    "forebay explain forebay-0007 --against forebay-0003",
    "forebay explain trace.json.gz --json",
};

// "0", "0,4-7": as the table of flags says it.
Status check_ranks(const std::string& list) {
  for (const std::string_view part : base::split(list, ',')) {
    const size_t dash = part.find('-', 1);
    const auto first = base::parse_int(part.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : base::parse_int(part.substr(dash + 1));
    if (!first.ok() || !last.ok() || *first < 0 || *last < *first)
      return fail(ErrorCode::kInvalidArgument,
                  "--rank takes ranks by comma and ranges of them, as 0 or 0,4-7, not '{}'", list);
  }
  return {};
}

Result<explain::Explained> explain_one(const std::string& path,
                                       const explain::Selection& selection) {
  LoadedRecording loaded = FB_TRY(load_recording_or_newest(path));
  return explain::explain(loaded.recording, selection).context(loaded.path);
}

Result<int> run(const Arguments& arguments) {
  explain::Selection selection;
  selection.marks = arguments.get("--marks").value_or("");
  selection.rank = arguments.get("--rank").value_or("");
  if (!selection.rank.empty()) FB_TRY(check_ranks(selection.rank));
  selection.process = arguments.get("--process").value_or("");
  explain::Explained explained =
      FB_TRY(explain_one(arguments.get("RECORDING").value_or(""), selection));
  if (const auto against = arguments.get("--against")) {
    const explain::Explained before = FB_TRY(explain_one(*against, selection));
    explained.explanation.comparison =
        explain::compare(before.measured, explained.measured, *against);
  }
  report::ExplanationTextOptions options;
  options.style = stdout_style();
  options.all = arguments.has("--all");
  FB_TRY(print(arguments.has("--json") ? report::explanation_json(explained.explanation)
                                       : report::explanation_text(explained.explanation, options)));
  return kExitDone;
}

}  // namespace

const Command kExplain{
    .name = "explain",
    .group = "understand",
    .summary = "show where the time went, and what to change",
    .detail =
        "Finds the iterations of training, gives each instant of each iteration an owner (compute, "
        "fetch, prep, sync, copy, checkpoint, idle, other), explains slow iterations apart, and "
        "ranks what would help by the time it would save in this recording.",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run,
    .examples = kExamples};

}  // namespace forebay::cli
