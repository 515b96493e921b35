// Goal: braces stand for what a shell makes of them, wildcards for what they say, and a data set
// made of patterns names what is not there.
#include "dataset/patterns.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "dataset/index.h"
#include "dataset/store_for_test.h"
#include "formats/builtin.h"

namespace forebay::dataset {
namespace {

using Strings = std::vector<std::string>;

Strings expand(std::string_view pattern) {
  auto made = expand_braces(pattern);
  if (!made.ok()) return {"error: " + made.error().message};
  return std::move(made).take();
}

// Compared with what bash 5 prints for the same text.
TEST(Patterns, BracesAreThoseOfAShell) {
  EXPECT_EQ(expand("a{b,c}d"), (Strings{"abd", "acd"}));
  EXPECT_EQ(expand("{a,b}{1,2}"), (Strings{"a1", "a2", "b1", "b2"}));
  EXPECT_EQ(expand("x{,y}"), (Strings{"x", "xy"}));
  EXPECT_EQ(expand("{a,{b,c}d}"), (Strings{"a", "bd", "cd"}));
  EXPECT_EQ(expand("{8..11}"), (Strings{"8", "9", "10", "11"}));
  EXPECT_EQ(expand("{008..11}"), (Strings{"008", "009", "010", "011"}));
  EXPECT_EQ(expand("{0..010..5}"), (Strings{"000", "005", "010"}));
  EXPECT_EQ(expand("{3..1}"), (Strings{"3", "2", "1"}));
  EXPECT_EQ(expand("{-1..1}"), (Strings{"-1", "0", "1"}));
  EXPECT_EQ(expand("{a..e..2}"), (Strings{"a", "c", "e"}));
  EXPECT_EQ(expand("{a}"), (Strings{"{a}"}));
  EXPECT_EQ(expand("{a..3}"), (Strings{"{a..3}"}));
  EXPECT_EQ(expand("{a,b"), (Strings{"{a,b"}));
  EXPECT_EQ(expand("{{1..2},x}"), (Strings{"1", "2", "x"}));
  EXPECT_EQ(expand("plain"), (Strings{"plain"}));
  EXPECT_EQ(expand("00{000..127}").size(), 128u);
  EXPECT_EQ(expand("00{000..127}").back(), "00127");
}

TEST(Patterns, EscapesStayForTheMatcher) {
  EXPECT_EQ(expand("\\{a,b\\}"), (Strings{"\\{a,b\\}"}));
  EXPECT_EQ(expand("{a\\,b,c}"), (Strings{"a\\,b", "c"}));
  EXPECT_EQ(unescape_pattern("\\{a\\,b\\}\\\\"), "{a,b}\\");
  const std::string odd = "we{ir}d, *?\\name";
  EXPECT_EQ(expand(escape_pattern(odd)).size(), 1u);
  EXPECT_EQ(unescape_pattern(escape_pattern(odd)), odd);
  EXPECT_FALSE(has_wildcards(escape_pattern(odd)));
  EXPECT_TRUE(path_matches(escape_pattern(odd), odd));
  EXPECT_NE(expand("a\\")[0].find("escapes nothing"), std::string::npos);
}

TEST(Patterns, TooManyPathsAreRefused) {
  for (const char* pattern : {"{0..99999999}", "{0..9999}{0..9999}", "{0..1000000000000000000}"})
    EXPECT_NE(expand(pattern)[0].find("more than 10000000 paths"), std::string::npos) << pattern;
  std::string nested = "b";
  for (int i = 0; i < 40; ++i) nested = "{a," + nested + "}";
  EXPECT_NE(expand(nested)[0].find("more than 32 deep"), std::string::npos);
}

TEST(Patterns, WildcardsMatchWithinAndAcrossFolders) {
  const auto fits = [](std::string_view pattern, std::string_view path) {
    return path_matches(pattern, path);
  };
  EXPECT_TRUE(fits("*.npz", "a.npz"));
  EXPECT_FALSE(fits("*.npz", "b/a.npz"));
  EXPECT_TRUE(fits("*/a?.npz", "b/a1.npz"));
  EXPECT_FALSE(fits("*/a?.npz", "b/a12.npz"));
  EXPECT_TRUE(fits("**/*.npz", "a.npz"));
  EXPECT_TRUE(fits("**/*.npz", "x/y/z/a.npz"));
  EXPECT_TRUE(fits("x/**/z/**/*.npz", "x/z/y/z/a.npz"));
  EXPECT_FALSE(fits("x/**/z/*.npz", "x/z/y/a.npz"));
  EXPECT_TRUE(fits("x/**", "x/y/z"));
  EXPECT_TRUE(fits("a*b*c", "aXbbYc"));
  EXPECT_FALSE(fits("a*b*c", "aXbYd"));
  EXPECT_TRUE(fits("\\*.npz", "*.npz"));
  EXPECT_FALSE(fits("\\*.npz", "a.npz"));
}

TEST(Patterns, TheFolderWrittenOutIsKnown) {
  EXPECT_EQ(literal_folder("a/b/*.npz"), "a/b");
  EXPECT_EQ(literal_folder("a/b{1,2}/c"), "a");
  EXPECT_EQ(literal_folder("*.npz"), "");
  EXPECT_EQ(literal_folder("a\\{1\\}/x?"), "a{1}");
}

struct Found {
  std::string error;
  Strings paths;
  IndexSummary summary;
};
Found open(StoreForTest& store, IndexOptions options) {
  if (options.format == nullptr) options.format = &formats::kRaw;
  options.threads = 1;
  const auto index = Index::open(store, options);
  if (!index.ok()) return {.error = index.error().message, .paths = {}, .summary = {}};
  Found found{.error = "", .paths = {}, .summary = (*index)->summary()};
  for (uint32_t i = 0; i < (*index)->file_count(); ++i) found.paths.emplace_back((*index)->path(i));
  return found;
}

TEST(PatternFiles, AreInTheOrderOfThePatterns) {
  StoreForTest store;
  for (const char* path : {"s/b.raw", "s/a.raw", "s/t/c.raw", "s/10.raw", "s/9.raw", "o/x.raw"})
    store.put(path);
  EXPECT_EQ(open(store, {.patterns = {"s/{9..10}.raw"}}).paths, (Strings{"s/9.raw", "s/10.raw"}));
  EXPECT_EQ(open(store, {.patterns = {"s/b.raw", "s/a.raw"}}).paths,
            (Strings{"s/b.raw", "s/a.raw"}));
  EXPECT_EQ(open(store, {.patterns = {"s/?.raw"}}).paths,
            (Strings{"s/9.raw", "s/a.raw", "s/b.raw"}));
  EXPECT_EQ(open(store, {.patterns = {"**/*.raw"}}).paths.size(), 6u);
  EXPECT_EQ(open(store, {.patterns = {"o", "s/t"}}).paths, (Strings{"o/x.raw", "s/t/c.raw"}));
  EXPECT_EQ(open(store, {.patterns = {"s/t/"}}).paths, (Strings{"s/t/c.raw"}));
}

TEST(PatternFiles, ThatDoNotExistAreNamed) {
  StoreForTest store;
  for (int i = 0; i < 20; i += 2) store.put("s/" + std::to_string(i) + ".raw");
  const Found found = open(store, {.patterns = {"s/{0..19}.raw"}});
  EXPECT_EQ(found.error,
            "test:/data: 10 of 20 paths do not exist: s/1.raw, s/3.raw, s/5.raw, s/7.raw, "
            "s/9.raw, ...");
  const Found skipped = open(store, {.patterns = {"s/{0..19}.raw"}, .skip_bad_files = true});
  EXPECT_EQ(skipped.error, "");
  EXPECT_EQ(skipped.paths.size(), 10u);
  EXPECT_EQ(skipped.summary.bad_file_count, 10u);
  EXPECT_EQ(open(store, {.patterns = {"s/*.npz"}}).error,
            "test:/data: no file fits the pattern s/*.npz");
  EXPECT_NE(open(store, {.patterns = {"s/1.raw"}}).error.find("s/1.raw"), std::string::npos);
}

TEST(PatternFiles, ChosenTwiceCountOnceAndAreNamed) {
  StoreForTest store;
  store.put("a.raw");
  store.put("b.raw");
  for (const Strings& patterns : {Strings{"a.raw", "b.raw", "a.raw"}, Strings{"*.raw", "a.raw"}}) {
    const Found found = open(store, {.patterns = patterns});
    EXPECT_EQ(found.paths, (Strings{"a.raw", "b.raw"}));
    ASSERT_EQ(found.summary.problem_count, 1u);
    EXPECT_EQ(found.summary.problems[0].path, "a.raw");
  }
}

// Captions and notes beside other data are none; a folder of text alone is.
TEST(PatternFiles, PlainTextIsDataWhereNothingElseIs) {
  StoreForTest store;
  for (const char* path : {"a/1.txt", "a/2.txt", "a/3.txt", "b/1.txt"}) store.put(path, "text\n");
  store.put("a/1.jsonl", "{}\n{}\n");
  const auto a = Index::open(store, {.folder = "a", .threads = 1});
  ASSERT_TRUE(a.ok()) << a.error().message;
  EXPECT_EQ((*a)->format().name, "lines");
  EXPECT_EQ((*a)->sample_count(), 2u);
  EXPECT_EQ((*a)->summary().stray_count, 3u);
  const auto b = Index::open(store, {.folder = "b", .threads = 1});
  ASSERT_TRUE(b.ok()) << b.error().message;
  EXPECT_EQ((*b)->sample_count(), 1u);
}

// What archives lack is told by the index, and by its cache.
TEST(PatternFiles, ProblemsOfFilesAreRemembered) {
  const base::TestFolder folder("problems");
  StoreForTest store;
  store.put("a.jsonl", "{}\n\n{}\n");
  for (const bool from_cache : {false, true}) {
    const auto index = Index::open(
        store, {.patterns = {"*.jsonl"}, .cache_path = folder.path() + "/cache", .threads = 1});
    ASSERT_TRUE(index.ok()) << index.error().message;
    EXPECT_EQ((*index)->summary().from_cache, from_cache);
    ASSERT_EQ((*index)->summary().problem_count, 1u);
    EXPECT_EQ((*index)->summary().problems[0].reason, "1 empty lines are no samples");
  }
}

TEST(PatternFiles, FoldersWithBracesInTheirNamesAreReached) {
  StoreForTest store;
  store.put("odd {1,2}/a.raw");
  store.put("odd 1/a.raw");
  EXPECT_EQ(open(store, {.patterns = {escape_pattern("odd {1,2}") + "/*.raw"}}).paths,
            (Strings{"odd {1,2}/a.raw"}));
}

}  // namespace
}  // namespace forebay::dataset
