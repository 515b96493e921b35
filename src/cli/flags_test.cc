#include "cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kCacheChoices[] = {"cold", "warm", "as-is"};
constexpr std::string_view kWhatChoices[] = {"workloads", "formats"};
constexpr Flag kRunFlags[] = {
    {.name = "--accelerators", .value = "N", .fallback = "1", .summary = "how many"},
    {.name = "--cache", .value = "WHEN", .summary = "page cache", .choices = kCacheChoices},
    {.name = "--memory", .value = "SIZE", .fallback = "1 MiB", .summary = "memory"},
    {.name = "--wait", .value = "TIME", .fallback = "20ms", .summary = "time"},
    {.name = "--share", .value = "SHARE", .summary = "share"},
    {.name = "--tag", .value = "TEXT", .summary = "label", .repeats = true},
    {.name = "--json", .summary = "JSON on stdout"},
};
constexpr Positional kRunPositionals[] = {
    {.name = "WORKLOAD", .summary = "built-in or file", .required = true},
    {.name = "KEY=VALUE", .summary = "override", .repeats = true},
};
constexpr Command kRun{.name = "run",
                       .group = "measure",
                       .summary = "run a workload here",
                       .positionals = kRunPositionals,
                       .flags = kRunFlags};

constexpr Positional kRecordPositionals[] = {
    {.name = "PROGRAM", .summary = "what to observe", .repeats = true, .verbatim = true}};
constexpr Flag kRecordFlags[] = {{.name = "--json", .summary = "JSON on stdout"}};
constexpr Command kRecord{.name = "record",
                          .group = "understand",
                          .positionals = kRecordPositionals,
                          .flags = kRecordFlags};

constexpr Positional kListPositionals[] = {
    {.name = "WHAT", .summary = "what to list", .choices = kWhatChoices}};
constexpr Command kList{.name = "list", .positionals = kListPositionals};
constexpr Command kSave{.name = "checkpoint save"};
constexpr Command kVerify{.name = "checkpoint verify"};

Result<Arguments> parse_words(const Command& command, std::vector<const char*> words) {
  return parse(command, words);
}

Arguments run_arguments(std::vector<const char*> words) {
  words.insert(words.begin(), "resnet50");
  Result<Arguments> result = parse_words(kRun, std::move(words));
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return std::move(result).take();
}

std::string run_error(std::vector<const char*> words) {
  const Result<Arguments> result = parse_words(kRun, std::move(words));
  EXPECT_FALSE(result.ok());
  if (result.ok()) return "";
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  return result.error().message;
}

TEST(Flags, ValueFollowsAsNextWordOrAfterEquals) {
  EXPECT_EQ(run_arguments({"--accelerators", "4"}).get("--accelerators"), "4");
  EXPECT_EQ(run_arguments({"--accelerators=8"}).get("--accelerators"), "8");
  EXPECT_EQ(run_arguments({"--tag=a=b"}).get("--tag"), "a=b");
  EXPECT_EQ(run_error({"w", "--tag="}), "--tag needs TEXT, not ''");
}

TEST(Flags, FallbackIsReturnedButDoesNotCountAsGiven) {
  const Arguments arguments = run_arguments({});
  EXPECT_EQ(arguments.get("--accelerators"), "1");
  EXPECT_FALSE(arguments.has("--accelerators"));
  EXPECT_EQ(arguments.get("--cache"), std::nullopt);
  EXPECT_THAT(arguments.all("--tag"), ElementsAre());
  EXPECT_TRUE(run_arguments({"--json"}).has("--json"));
}

TEST(Flags, RepeatedFlagKeepsEveryValueInOrder) {
  EXPECT_THAT(run_arguments({"--tag", "b", "--tag=a"}).all("--tag"), ElementsAre("b", "a"));
}

TEST(Flags, OtherFlagsRefuseToBeGivenTwice) {
  EXPECT_EQ(run_error({"w", "--json", "--json"}), "--json is given twice");
}

TEST(Flags, PositionalsAndFlagsMayMix) {
  const Arguments arguments =
      run_arguments({"reader.batch_size=4", "--json", "++workload.train.epochs=2"});
  EXPECT_EQ(arguments.get("WORKLOAD"), "resnet50");
  EXPECT_THAT(arguments.all("KEY=VALUE"),
              ElementsAre("reader.batch_size=4", "++workload.train.epochs=2"));
}

TEST(Flags, NumbersAndDashAreNotFlags) {
  EXPECT_THAT(run_arguments({"-", "-1", "-.5"}).all("KEY=VALUE"), ElementsAre("-", "-1", "-.5"));
  EXPECT_EQ(run_arguments({"--tag", "-3"}).get("--tag"), "-3");
}

TEST(Flags, DoubleDashEndsFlags) {
  EXPECT_THAT(run_arguments({"--", "--json", "--"}).all("KEY=VALUE"), ElementsAre("--json", "--"));
}

TEST(Flags, VerbatimPositionalKeepsTheProgramsOwnFlags) {
  for (const bool has_dashes : {false, true}) {
    std::vector<const char*> words = {"--json"};
    if (has_dashes) words.push_back("--");
    words.insert(words.end(), {"python", "train.py", "--json", "--", "-h"});
    const Result<Arguments> result = parse_words(kRecord, words);
    ASSERT_TRUE(result.ok());
    EXPECT_THAT(result->all("PROGRAM"), ElementsAre("python", "train.py", "--json", "--", "-h"));
    EXPECT_TRUE(result->has("--json"));
  }
}

TEST(Flags, HelpWinsOverMissingPositionals) {
  EXPECT_EQ(parse_words(kRun, {"-h"})->help(), HelpRequest::kShort);
  EXPECT_EQ(parse_words(kRun, {"w", "--help", "--nonsense"})->help(), HelpRequest::kLong);
  EXPECT_EQ(parse_words(kRun, {"w"})->help(), HelpRequest::kNone);
}

TEST(Flags, UnknownFlagNamesTheNearest) {
  EXPECT_EQ(run_error({"w", "--acelerators", "4"}),
            "'run' has no flag '--acelerators'; did you mean '--accelerators'? "
            "(all: forebay run -h)");
  EXPECT_EQ(run_error({"w", "--zzzzzzzz=4"}),
            "'run' has no flag '--zzzzzzzz' (all: forebay run -h)");
}

TEST(Flags, MissingAndSurplusValuesAreNamed) {
  EXPECT_EQ(run_error({"w", "--memory"}), "--memory needs a value: --memory SIZE");
  EXPECT_THAT(run_error({"w", "--memory", "--json"}), HasSubstr("'--json' looks like a flag"));
  EXPECT_EQ(run_error({"w", "--json=yes"}), "--json takes no value, and got 'yes'");
  EXPECT_THAT(run_error({}), HasSubstr("'run' needs WORKLOAD: built-in or file"));
}

TEST(Flags, AnEmptyValueIsRefusedAndNotTakenForTheDefault) {
  EXPECT_EQ(run_error({"w", "--memory", ""}), "--memory needs SIZE, not ''");
  EXPECT_EQ(run_error({"w", "--memory="}), "--memory needs SIZE, not ''");
}

TEST(Flags, ChoicesAreEnforcedForFlagsAndPositionals) {
  EXPECT_EQ(run_error({"w", "--cache", "clod"}),
            "--cache is one of cold, warm, as-is, not 'clod'; did you mean 'cold'?");
  const Result<Arguments> result = parse_words(kList, {"format"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message,
            "WHAT is one of workloads, formats, not 'format'; did you mean 'formats'?");
}

TEST(Flags, SurplusPositionalIsAnError) {
  const Result<Arguments> result = parse_words(kList, {"formats", "extra"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "'list' has no place for 'extra' (forebay list -h)");
}

TEST(Arguments, NumbersAreRangeCheckedAndNamed) {
  const Arguments arguments = run_arguments({"--accelerators", "12", "--tag", "1.5"});
  EXPECT_EQ(*arguments.integer("--accelerators", 1, 16), 12);
  EXPECT_EQ(*arguments.integer("--accelerators", 12, 12), 12);
  EXPECT_DOUBLE_EQ(*arguments.number("--tag", 0, 2), 1.5);
  EXPECT_EQ(arguments.integer("--accelerators", 1, 11).error().message,
            "--accelerators takes a whole number from 1 to 11, not '12'");
  EXPECT_EQ(arguments.integer("--tag", 0, 9).error().message,
            "--tag takes a whole number from 0 to 9, not '1.5'");
  EXPECT_FALSE(arguments.number("--tag", 2, 3).ok());
}

TEST(Arguments, SizesTimesAndSharesAreRead) {
  const Arguments arguments = run_arguments({"--share", "50%"});
  EXPECT_EQ(*arguments.bytes("--memory"), 1048576u);
  EXPECT_EQ(*arguments.duration_ns("--wait"), 20'000'000);
  EXPECT_DOUBLE_EQ(*arguments.fraction("--share"), 0.5);
  EXPECT_THAT(arguments.bytes("--memory", 0, 1000).error().message, HasSubstr("--memory takes"));
  EXPECT_THAT(arguments.bytes("--memory", 1 << 21).error().message, HasSubstr("bytes or more"));
  EXPECT_EQ(*run_arguments({"--memory=2MB/s"}).bytes_per_second("--memory"), 2000000u);
  EXPECT_THAT(run_arguments({"--memory=much"}).bytes("--memory").error().message,
              HasSubstr("--memory: "));
  EXPECT_FALSE(run_arguments({"--share=150%"}).fraction("--share").ok());
}

TEST(Arguments, ValueWithoutFallbackIsAskedFor) {
  EXPECT_EQ(run_arguments({}).fraction("--share").error().message, "'run' needs --share SHARE");
}

TEST(ArgumentsDeathTest, NameOutsideTheTableIsABug) {
  EXPECT_DEATH(run_arguments({}).has("--misspelt"), "forebay: bug");
}

constexpr const Command* kCommands[] = {&kRun, &kRecord, &kList, &kSave, &kVerify};

Result<Selection> select_words(const std::vector<const char*>& words) {
  return select_command(kCommands, words);
}

TEST(SelectCommand, TakesOneOrTwoWords) {
  const std::vector<const char*> words = {"run", "resnet50"};
  const Result<Selection> run = select_words(words);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->command, &kRun);
  ASSERT_EQ(run->rest.size(), 1u);
  EXPECT_STREQ(run->rest[0], "resnet50");

  const Result<Selection> save = select_words({"checkpoint", "save"});
  ASSERT_TRUE(save.ok());
  EXPECT_EQ(save->command, &kSave);
  EXPECT_TRUE(save->rest.empty());
}

TEST(SelectCommand, UnknownNamesTheNearest) {
  EXPECT_THAT(select_words({"rnu"}).error().message,
              HasSubstr("no command named 'rnu'; did you mean 'run'?"));
  EXPECT_EQ(select_words({"checkpoint", "sav"}).error().message,
            "no checkpoint command named 'sav'; did you mean 'save'? (known: save, verify)");
  EXPECT_EQ(select_words({"checkpoint"}).error().message,
            "'checkpoint' is followed by one of: save, verify");
  EXPECT_FALSE(select_words({}).ok());
}

}  // namespace
}  // namespace forebay::cli
