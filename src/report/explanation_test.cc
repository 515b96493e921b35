// Explanations as text fit 80 columns and are stable; as JSON they are complete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/test_folder.h"
#include "report/explanation_json.h"
#include "report/explanation_text.h"

namespace forebay::report {
namespace {

using explain::Advice;
using explain::Explanation;
using explain::Part;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;

Explanation sample() {
  Explanation found;
  found.headline = "limited by prep stall: 29 % of the time, compute 63 %";
  found.recording = {.paths = {"forebay-0007/1.fbt"}, .source = "record"};
  found.recording.duration_ns = 250'000 * kMs;
  found.recording.events = 1'234'567;
  found.recording.overhead_outside_ns = 1500 * kMs;
  found.recording.facts = {{"collector.io", "ebpf"}};
  found.iterations = {.is_found = true, .method = "phases of compute"};
  found.iterations.confidence = 0.98;
  found.iterations.count = 412;
  found.iterations.p50_ns = 604 * kMs;
  found.iterations.mean_ns = 640 * kMs;
  found.iterations.p99_ns = 1900 * kMs;
  explain::Driver driver{.name = "node1 / train.py 4711 / python 4711"};
  driver.steps.ns = {380 * kMs, 24 * kMs, 175 * kMs, 12 * kMs, 0, 12 * kMs, 0, kMs};
  driver.iterations.push_back({.number = 1, .begin_ns = 0, .end_ns = 604 * kMs});
  driver.iterations[0].parts = driver.steps;
  found.steps = found.whole = driver.whole = driver.steps;
  found.causes = {{Part::kPrepStall, "decoding itself", 175 * kMs}};
  found.drivers.push_back(driver);
  found.slow.push_back({.kind = "epoch start", .count = 2});
  found.slow[0].explanation =
      "8.80 s each, 8.20 s more than the mean 600 ms of the 410 ordinary ones; fetch stall grows "
      "by "
      "8.00 s";
  Advice advice{.id = "python-decode",
                .title = "decode runs in one Python thread (train.py:88 load())",
                .state = Advice::State::kApplies};
  advice.evidence = "prep stall 29 % of the time; the training thread decodes itself";
  advice.remedies = {"decode in the loader: DataLoader(..., num_workers=4)"};
  advice.gain_ns_per_step = 166 * kMs;
  advice.gain_ns = advice.gain_ns_per_step * 412;
  advice.gain_share = 0.275;
  found.advice.push_back(advice);
  found.advice.push_back({.id = "slow-network", .title = "slow-network", .evidence = "no calls"});
  found.io.is_measured = true;
  found.io.total = {.name = "all files", .files = 10, .reads = 4120};
  found.io.total.read_bytes = 412'000'000;
  found.io.total.read_p50_ns = 100'000;
  found.io.total.read_p99_ns = 3 * kMs;
  found.io.total.read_max_ns = 9 * kMs;
  found.io.folders.push_back({.name = "/data/images/" + std::string(120, 'x'), .reads = 4120});
  found.swarms.push_back(
      {.id = "00ff", .kind = "python", .symbol = "load", .source = "train.py:88"});
  found.swarms[0].share = 0.71;
  found.warnings = {"not seen: calls of static binaries"};
  return found;
}

// 497 iterations of 48 ranks are eleven of each, not 497 of the program.
TEST(ExplanationText, SaysHowManyIterationsEachRankHas) {
  Explanation found = sample();
  found.drivers.push_back(found.drivers[0]);
  found.iterations.count = 2;
  EXPECT_THAT(explanation_text(found, {}),
              testing::StartsWith("1 iteration in each of 2 ranks, 2 together: median 604 ms"));
  found.drivers[1].iterations.push_back(found.drivers[1].iterations[0]);
  found.drivers[1].iterations.push_back(
      {.number = 9, .begin_ns = 0, .end_ns = kMs, .is_partial = true});
  found.iterations.count = 3;
  EXPECT_THAT(explanation_text(found, {}),
              testing::StartsWith("1 to 2 iterations in each of 2 ranks, 3 together: median"));
}

TEST(ExplanationText, IsTheGoldenOneAndFitsEightyColumns) {
  const std::string text = explanation_text(sample(), {});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  std::ifstream file(base::source_folder() + "/tests/golden/explanation/text.txt");
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str());
}

TEST(ExplanationText, NamesFromRecordingsDoNotSteerTheTerminal) {
  Explanation found = sample();
  found.swarms[0].symbol = "evil\x1b[2J\nname";
  found.advice[0].title = "evil\x1b]0;x\x07";
  const std::string text = explanation_text(found, {});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("evil?[2J?name"));
}

TEST(ExplanationText, FunctionsAreListedOnceAndLibrariesWithoutSymbolsByModule) {
  Explanation found = sample();
  const auto add = [&](const std::string& symbol, const std::string& module, double share) {
    found.swarms.push_back({.symbol = symbol, .module = module});
    found.swarms.back().share = share;
  };
  found.swarms.clear();
  add("decode", "/bin/train", 0.2);
  add("libmkl.so.2+0x1234", "/opt/libmkl.so.2", 0.15);
  add("decode", "/bin/train", 0.1);
  add("libmkl.so.2+0x99", "/opt/libmkl.so.2", 0.17);
  const std::string text = explanation_text(found, {});
  EXPECT_THAT(text, HasSubstr("32.0 %  libmkl.so.2 (no symbols)"));
  EXPECT_THAT(text, HasSubstr("30.0 %  decode"));
  EXPECT_EQ(text.find("decode\n"), text.rfind("decode\n"));
}

TEST(ExplanationText, WrittenBytesStandBesideReadOnes) {
  Explanation found = sample();
  EXPECT_THAT(explanation_text(found, {}), Not(HasSubstr("written")));
  found.io.total.writes = 30;
  found.io.total.written_bytes = 600'000'000;
  found.io.total.write_ns = 1200 * kMs;
  found.io.folders.push_back({.name = "/data/checkpoints", .writes = 30});
  found.io.folders.back().written_bytes = 600'000'000;
  found.io.folders.back().write_ns = 1200 * kMs;
  const std::string text = explanation_text(found, {});
  EXPECT_THAT(text, HasSubstr("writes of 600 MB in 1.20 s"));
  EXPECT_THAT(text, HasSubstr("1.20 s        0 B read     600 MB written  /data/checkpoints"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(ExplanationText, ComparisonsSayWhatTheyCount) {
  Explanation found = sample();
  found.comparison = explain::Comparison{.against = "b", .unit = "window of 1 s"};
  found.comparison->rows.push_back({.what = "sgemm", .before_ns = 1, .after_ns = 2});
  found.comparison->rows[0].before_n = 80;
  found.comparison->rows[0].after_n = 2;
  EXPECT_THAT(explanation_text(found, {}), HasSubstr("per window of 1 s: 80 before and 2 after"));
}

TEST(ExplanationText, WindowsOfDevicesAloneSayNothingOfCores) {
  Explanation found = sample();
  found.concurrency.is_measured = true;
  found.concurrency.by_busiest = {.gpu = 0.36, .idle = 0.64};
  EXPECT_THAT(explanation_text(found, {}), HasSubstr("GPU busy 36 %, idle 64 %"));
  EXPECT_THAT(explanation_text(found, {}), Not(HasSubstr("busiest core")));
}

// The host may be busy while the training thread waits, and the other way round.
TEST(ExplanationText, WindowsSayWhoseTimeTheyAre) {
  Explanation found = sample();
  found.concurrency = {.is_measured = true, .window_ns = 100 * kMs, .cores = 2, .is_of_host = true};
  found.concurrency.by_busiest = {.user = 1};
  EXPECT_THAT(explanation_text(found, {}), HasSubstr("2 cores of the host, used by any program"));
  found.concurrency.is_of_host = false;
  EXPECT_THAT(explanation_text(found, {}), HasSubstr("other programs not counted"));
}

TEST(ExplanationText, TheStarIsExplainedWhereThereIsOne) {
  Explanation found = sample();
  found.comparison = explain::Comparison{.against = "b", .unit = "iteration"};
  found.comparison->rows.push_back({.what = "sgemm", .before_ns = 1, .after_ns = 2, .p = 0.5});
  EXPECT_THAT(explanation_text(found, {}), HasSubstr("none significant: Mann-Whitney"));
  found.comparison->rows[0].is_significant = true;
  EXPECT_THAT(explanation_text(found, {}), HasSubstr("0.5 *\n* significant: Mann-Whitney"));
}

TEST(ExplanationText, AllListsRulesWithoutEvidence) {
  EXPECT_THAT(explanation_text(sample(), {}), Not(HasSubstr("slow-network")));
  ExplanationTextOptions options;
  options.all = true;
  EXPECT_THAT(explanation_text(sample(), options),
              HasSubstr("slow-network: no evidence: no calls"));
}

TEST(ExplanationJson, IsCompleteVersionedAndHoldsExactSums) {
  Explanation found = sample();
  found.comparison = explain::Comparison{.against = "b", .unit = "iteration"};
  found.comparison->rows.push_back({.what = "iteration", .before_ns = 1, .after_ns = 2});
  const json all = json::parse(explanation_json(found));
  EXPECT_EQ(all["schema_version"], explain::kExplanationSchemaVersion);
  EXPECT_EQ(all["kind"], "explanation");
  for (const char* name : {"recording", "iterations", "drivers", "whole", "steps", "causes", "slow",
                           "pace", "concurrency", "swarms", "comparison", "io", "disks",
                           "read_latency", "accelerators", "alignment", "advice", "warnings"}) {
    EXPECT_TRUE(all.contains(name)) << name;
  }
  int64_t sum = 0;
  for (const auto& [name, ns] : all["steps"].items()) {
    if (name != "total") sum += ns.get<int64_t>();
  }
  EXPECT_EQ(sum, all["steps"]["total"]);
  EXPECT_EQ(all["steps"]["prep_stall"], 175 * kMs);
  EXPECT_TRUE(all["io"]["total"]["cache_bytes"].is_null());
  EXPECT_TRUE(all["comparison"]["rows"][0]["p"].is_null());
  EXPECT_EQ(all["advice"][1]["state"], "no evidence");
}

TEST(ExplanationJson, TakesNamesThatAreNoUtf8) {
  Explanation found = sample();
  found.swarms[0].symbol = "\xc0\xc7\x01";
  EXPECT_TRUE(json::accept(explanation_json(found)));
}

}  // namespace
}  // namespace forebay::report
