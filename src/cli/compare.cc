// forebay compare: judges two results.
#include <array>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/result_folder.h"
#include "report/compare.h"

namespace forebay::cli {
namespace {

constexpr std::array<Positional, 2> kPositionals{{
    {.name = "A", .summary = "result folder or result.json, before", .required = true},
    {.name = "B", .summary = "the same, after", .required = true},
}};

constexpr std::array<Flag, 1> kFlags{{{.name = "--json", .summary = "print as JSON"}}};

constexpr std::array<std::string_view, 1> kExamples{
    "forebay compare results/unet3d_h100-0001 results/unet3d_h100-0002"};

Result<report::StoredResult> load(const std::string& path) {
  const std::string text = FB_TRY(read_result(path));
  return report::parse_result(path, text);
}

Result<int> run(const Arguments& arguments) {
  const report::StoredResult before = FB_TRY(load(*arguments.get("A")));
  const report::StoredResult after = FB_TRY(load(*arguments.get("B")));
  const report::Comparison comparison = report::compare(before, after);
  FB_TRY(print(arguments.has("--json") ? report::comparison_json(before, after, comparison)
                                       : report::comparison_text(before, after, comparison)));
  return kExitDone;
}

}  // namespace

const Command kCompare{.name = "compare",
                       .group = "measure",
                       .summary = "judge two results",
                       .detail =
                           "Lists each figure of both, their ratio, and whether they differ by "
                           "more than their spread over epochs (Welch's test, 95 %).",
                       .positionals = kPositionals,
                       .flags = kFlags,
                       .run = run,
                       .examples = kExamples};

}  // namespace forebay::cli
