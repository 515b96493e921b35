// The texts are checked for what readers and shells rely on, not letter by letter.
#include "cli/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"

namespace forebay::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kCacheChoices[] = {"cold", "warm"};
constexpr std::string_view kExamples[] = {"forebay run resnet50 --accelerators 4"};
constexpr Flag kRunFlags[] = {
    {.name = "--accelerators", .value = "N", .fallback = "1", .summary = "how many to emulate"},
    {.name = "--cache",
     .value = "WHEN",
     .summary = "state of the page cache",
     .detail =
         "A cold cache is emptied of the data set's own pages only, so that nothing else on the "
         "machine slows down.",
     .choices = kCacheChoices},
    {.name = "--json", .summary = "JSON on stdout (it's the result.json)"},
};
constexpr Positional kRunPositionals[] = {
    {.name = "WORKLOAD", .summary = "built-in or file", .required = true},
    {.name = "KEY=VALUE", .summary = "override", .repeats = true}};
constexpr Command kRun{.name = "run",
                       .group = "measure",
                       .summary = "run a workload here",
                       .detail = ".hidden starts with a dot",
                       .positionals = kRunPositionals,
                       .flags = kRunFlags,
                       .examples = kExamples};
constexpr Positional kRecordPositionals[] = {{.name = "PROGRAM",
                                              .summary = "what to run",
                                              .required = true,
                                              .repeats = true,
                                              .verbatim = true}};
constexpr Command kRecord{.name = "record",
                          .group = "understand",
                          .summary = "observe a program",
                          .positionals = kRecordPositionals,
                          .flags = kRunFlags};
constexpr Command kProbe{.name = "probe", .group = "measure", .summary = "find the limits"};
constexpr Command kSave{.name = "checkpoint save", .group = "checkpoint", .summary = "save it"};
constexpr Command kVerify{
    .name = "checkpoint verify", .group = "checkpoint", .summary = "check it"};
constexpr const Command* kCommands[] = {&kRun, &kRecord, &kProbe, &kSave, &kVerify};

void expect_fits_screen(const std::string& text) {
  for (const std::string_view line : base::split(text, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
  }
}

TEST(Help, UsageShowsOptionalRepeatedAndVerbatim) {
  EXPECT_EQ(usage(kRun), "usage: forebay run WORKLOAD [KEY=VALUE...] [options]");
  EXPECT_EQ(usage(kRecord), "usage: forebay record [options] PROGRAM...");
  EXPECT_EQ(usage(kProbe), "usage: forebay probe");
}

TEST(Help, ShortHelpHasOneLinePerRowAndTheFallback) {
  const std::string text = short_help(kRun);
  expect_fits_screen(text);
  EXPECT_THAT(text, HasSubstr("--accelerators N  how many to emulate [1]\n"));
  EXPECT_THAT(text, Not(HasSubstr("slows down")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9);
}

TEST(Help, LongHelpExplainsAndWraps) {
  const std::string text = long_help(kRun);
  expect_fits_screen(text);
  EXPECT_THAT(text, HasSubstr("slows"));
  EXPECT_THAT(text, HasSubstr("One of cold, warm."));
  EXPECT_THAT(text, HasSubstr("  forebay run resnet50 --accelerators 4\n"));
}

TEST(Help, OverviewGroupsCommandsInTableOrder) {
  const std::string text = overview(kCommands, "forebay run resnet50");
  expect_fits_screen(text);
  EXPECT_LT(text.find("measure  "), text.find("understand"));
  EXPECT_EQ(text.find("\nmeasure "), text.rfind("\nmeasure "));
  EXPECT_LT(text.find("probe"), text.find("understand"));
  EXPECT_THAT(text, HasSubstr("checkpoint verify  check it"));
  EXPECT_THAT(text, HasSubstr("Start: forebay run resnet50\n"));
}

TEST(ManPage, EscapesWhatRoffWouldEat) {
  const std::string text = man_page(kCommands, "1.2.3");
  EXPECT_THAT(text, StartsWith(".TH FOREBAY 1 \"\" \"forebay 1.2.3\""));
  EXPECT_THAT(text, HasSubstr("\n\\&.hidden starts"));
  EXPECT_THAT(text, HasSubstr(".B \\-\\-accelerators \\fIN\\fR"));
  EXPECT_THAT(text, HasSubstr(".SS forebay checkpoint save"));
}

TEST(CliMarkdown, HasOneTitleAndOneSectionPerCommand) {
  const std::string text = cli_markdown(kCommands);
  EXPECT_THAT(text, StartsWith("# Command line\n"));
  EXPECT_EQ(text.find("\n# "), std::string::npos);
  for (const Command* command : kCommands)
    EXPECT_THAT(text, HasSubstr("\n## forebay " + std::string(command->name) + "\n"));
  EXPECT_THAT(text, HasSubstr("- `--accelerators N`: how many to emulate (default `1`).\n"));
}

TEST(Completion, KnowsEveryFlagAndChoiceInEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Result<std::string> text = completion(kCommands, shell);
    ASSERT_TRUE(text.ok());
    EXPECT_THAT(*text, HasSubstr("accelerators")) << shell;
    EXPECT_THAT(*text, HasSubstr("cold warm")) << shell;
    EXPECT_THAT(*text, HasSubstr("verify")) << shell;
  }
}

TEST(Completion, UnknownShellIsNamed) {
  const Result<std::string> text = completion(kCommands, "bsh");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().message,
            "no shell named 'bsh'; did you mean 'bash'? (known: bash, fish, zsh)");
}

}  // namespace
}  // namespace forebay::cli
