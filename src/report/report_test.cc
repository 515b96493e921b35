// What is printed and written: valid JSON, nulls with reasons, DLIO's keys, judgements with spread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "emulate/metrics.h"
#include "emulate/verdict.h"
#include "report/compare.h"
#include "report/dlio_files.h"
#include "report/dlio_log.h"
#include "report/inspection.h"
#include "report/json.h"
#include "report/stalls.h"
#include "report/text.h"

namespace forebay::report {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

emulate::RunResult two_epochs() {
  emulate::RunResult result;
  result.resolved = *workload::resolve("demo", {});
  result.options.data = "d";
  result.started_at = "2026-01-02T03:04:05Z";
  result.host.cpu_count = 2;
  result.steps_per_epoch = 4;
  for (uint64_t number = 1; number <= 2; ++number) {
    emulate::EpochResult epoch;
    epoch.epoch = number;
    epoch.start = static_cast<double>(number - 1);
    epoch.end = static_cast<double>(number);
    epoch.steps = 4;
    epoch.included_steps = 3;
    epoch.samples = 16;
    epoch.file_bytes = epoch.payload_bytes = 1000 * number;
    epoch.device_bytes = 0;
    epoch.cached_share = emulate::Figure::of(1);
    epoch.read_ns.record(1'000'000);
    emulate::RankEpoch rank;
    rank.split.compute = 0.6;
    rank.split.fetch = 0.4;
    rank.last = rank.split;
    rank.included_seconds = 1;
    rank.compute_seconds = 0.6;
    rank.blocks.push_back(
        {0, 1, {0.1, 0.1, 0.1, 0.1}, {0.2, 0.2, 0.2, 0.2}, {0.3, 0.3, 0.3, 0.3}, {}});
    epoch.ranks.push_back(rank);
    emulate::summarise_epoch(epoch, true, true);
    emulate::dlio_epoch(epoch, 1, 0, 4);
    result.epochs.push_back(epoch);
  }
  result.wall_seconds = 2;
  emulate::summarise_run(result);
  result.verdict = emulate::judge(result);
  return result;
}

// A name that ends in _reason, or "reason", must stand beside every null figure.
void expect_reasons(const json& value, const std::string& path) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      if (inner.is_null() && key != "error" && key != "stdev" && key != "device_bytes" &&
          key != "first_sample") {
        EXPECT_TRUE(value.contains(key + "_reason") || value.contains("reason"))
            << path << "." << key;
      }
      expect_reasons(inner, path + "." + key);
    }
  } else if (value.is_array()) {
    for (const json& inner : value) expect_reasons(inner, path + "[]");
  }
}

TEST(ResultJson, IsValidAndGivesAReasonForEveryNull) {
  const json full = json::parse(to_json(two_epochs()));
  EXPECT_EQ(full["schema_version"], emulate::kSchemaVersion);
  EXPECT_DOUBLE_EQ(full["summary"]["au"]["mean"], 0.6);
  EXPECT_EQ(full["verdict"]["outcome"], "fail");
  expect_reasons(full, "");
  emulate::RunResult nothing;
  nothing.resolved = *workload::resolve("demo", {});
  emulate::summarise_run(nothing);
  nothing.verdict = emulate::judge(nothing);
  const json empty = json::parse(to_json(nothing));
  EXPECT_TRUE(empty["summary"]["au"]["mean"].is_null());
  expect_reasons(empty, "");
}

TEST(ResultJson, InfinityAndNanNeverReachIt) {
  emulate::RunResult result = two_epochs();
  result.epochs[0].samples_per_second = emulate::Figure::of(std::nan(""));
  result.epochs[0].au = emulate::Figure::of(INFINITY);
  const json parsed = json::parse(to_json(result));
  EXPECT_TRUE(parsed["epochs"][0]["au"].is_null());
}

TEST(DlioFiles, HaveDliosKeysAndValidJson) {
  const emulate::RunResult result = two_epochs();
  std::map<std::string, json> files;
  for (const auto& [name, text] : dlio_files(result)) files[name] = json::parse(text);
  ASSERT_EQ(files.size(), 3u);
  const json& summary = files["summary.json"];
  for (const char* key :
       {"start", "end", "num_accelerators", "num_hosts", "hostname", "metric", "num_files_train",
        "num_files_eval", "num_samples_per_file", "host_cpu_count", "host_processor_name",
        "potential_caching", "host_cpuinfo", "host_meminfo", "host_memory_GB",
        "data_size_per_host_GB", "epochs"}) {
    EXPECT_TRUE(summary.contains(key)) << key;
  }
  for (const char* key :
       {"train_au_percentage", "train_au_mean_percentage", "train_au_stdev_percentage",
        "train_au_meet_expectation", "train_throughput_samples_per_second",
        "train_throughput_mean_samples_per_second", "train_throughput_stdev_samples_per_second",
        "train_io_mean_MB_per_second", "train_io_stdev_MB_per_second"}) {
    EXPECT_TRUE(summary["metric"].contains(key)) << key;
  }
  // T = 1 - 0.3 (the excluded step); AU = 0.6 / 0.7; throughput = 3 / 0.7 * 4.
  EXPECT_NEAR(summary["metric"]["train_au_percentage"][0], 100 * 0.6 / 0.7, 1e-9);
  EXPECT_NEAR(summary["metric"]["train_throughput_samples_per_second"][0], 3 / 0.7 * 4, 1e-9);
  EXPECT_EQ(files["0_output.json"]["1"]["load"]["block1"].size(), 4u);
  EXPECT_EQ(files["0_per_epoch_stats.json"]["2"]["block1"]["duration"], "1.00");
}

TEST(Text, SummarySaysVerdictLimitAndCache) {
  const std::string text = run_summary(two_epochs(), {});
  EXPECT_THAT(text, HasSubstr("FAIL  AU 60.0 %, needs 90 %"));
  EXPECT_THAT(text, HasSubstr("100 % of the bytes came from the page cache"));
  EXPECT_THAT(text, HasSubstr("limited by  memory"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(run_summary(two_epochs(), {.colour = true}), HasSubstr("\033["));
}

TEST(Text, ProgressFitsTheTerminal) {
  emulate::Progress progress;
  progress.epochs = 12;
  progress.epoch = 3;
  progress.steps_total = 1000;
  progress.steps_done = 250;
  progress.file_bytes = 12'000'000'000;
  progress.last_step_ns = 60'000'000'000;
  for (const int columns : {20, 40, 80, 200}) {
    EXPECT_LE(progress_line(progress, 2, 60'000'000'000, {.columns = columns}).size(),
              static_cast<size_t>(columns));
  }
  EXPECT_THAT(progress_line(progress, 2, 60'000'000'000, {.columns = 200}),
              HasSubstr("3 min 00 s left"));
}

StoredResult stored(double mean, double stdev, uint64_t n) {
  StoredResult result;
  result.figures.push_back({"au", "fraction", mean, stdev, n, true});
  return result;
}

TEST(Compare, JudgesByTheSpreadOfBothSides) {
  using Judgement = Difference::Judgement;
  const auto judgement = [](const StoredResult& a, const StoredResult& b) {
    return compare(a, b).differences.at(0).judgement;
  };
  EXPECT_EQ(judgement(stored(0.90, 0.01, 5), stored(0.95, 0.01, 5)), Judgement::kBetter);
  EXPECT_EQ(judgement(stored(0.95, 0.01, 5), stored(0.90, 0.01, 5)), Judgement::kWorse);
  EXPECT_EQ(judgement(stored(0.90, 0.10, 5), stored(0.95, 0.10, 5)), Judgement::kSame);
  EXPECT_EQ(judgement(stored(0.90, 0, 1), stored(0.95, 0, 1)), Judgement::kUnknown);
}

TEST(Compare, NamesConditionsThatDiffer) {
  const std::string text = to_json(two_epochs());
  const StoredResult a = *parse_result("a", text);
  emulate::RunResult other = two_epochs();
  other.options.cache = "cold";
  const StoredResult b = *parse_result("b", to_json(other));
  EXPECT_THAT(compare(a, b).warnings, testing::Contains(HasSubstr("cache as-is / cache cold")));
  EXPECT_TRUE(compare(a, a).warnings.empty());
}

TEST(Compare, RefusesWhatIsNoResult) {
  EXPECT_EQ(parse_result("x", "{").error().code, ErrorCode::kCorruption);
  EXPECT_EQ(parse_result("x", "[]").error().code, ErrorCode::kCorruption);
  EXPECT_EQ(parse_result("x", "{\"schema_version\": 99}").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(parse_result("x", "{\"schema_version\": 1}").error().code, ErrorCode::kCorruption);
}

TEST(Verdict, AWaitForALateNeighbourIsBlamedOnWhatTheNeighbourWaitedFor) {
  emulate::RunResult result = two_epochs();
  for (emulate::EpochResult& epoch : result.epochs) {
    // Three more accelerators that were ready and waited at the barrier.
    emulate::RankEpoch waiting = epoch.ranks[0];
    waiting.split.fetch = 0;
    waiting.split.sync = 0.4;
    waiting.last = {};
    for (int i = 0; i < 3; ++i) epoch.ranks.push_back(waiting);
    epoch.device_bytes = epoch.file_bytes;
    emulate::summarise_epoch(epoch, true, true);
  }
  emulate::summarise_run(result);
  EXPECT_GT(result.split.sync, result.split.fetch);
  EXPECT_EQ(emulate::judge(result).limited_by, "storage");
  EXPECT_NEAR(result.critical.fetch, 0.8, 1e-9);
}

emulate::RunResult passed(double compute, double fetch, double decode, double other) {
  emulate::RunResult result = two_epochs();
  for (emulate::EpochResult& epoch : result.epochs) {
    epoch.ranks[0].split = {.compute = compute, .fetch = fetch, .decode = decode, .other = other};
    epoch.ranks[0].last = epoch.ranks[0].split;
    epoch.ranks[0].compute_seconds = compute;
    emulate::summarise_epoch(epoch, true, true);
  }
  emulate::summarise_run(result);
  return result;
}

TEST(Verdict, ASmallOverheadOfAnIdleClientLimitsNothing) {
  emulate::RunResult result = passed(0.986, 0, 0.002, 0.012);
  EXPECT_EQ(emulate::judge(result).limited_by, "compute");
  result.cpu_seconds = 0.95 * result.wall_seconds * result.host.cpu_count;
  EXPECT_EQ(emulate::judge(result).limited_by, "client");
  EXPECT_EQ(emulate::judge(passed(0.8, 0, 0.2, 0)).limited_by, "client");
}

TEST(Verdict, ARunThatFailedIsLimitedByItsErrorAlone) {
  emulate::RunResult result = passed(0.5, 0, 0, 0.5);
  EXPECT_EQ(emulate::judge(result).limited_by, "client");
  result.error = "the server went away";
  EXPECT_EQ(emulate::judge(result).limited_by, "");
}

std::string next_of(emulate::RunResult result) {
  result.next_base = "forebay run my.yaml";
  result.verdict = emulate::judge(result);
  const std::string text = run_summary(result, {});
  const size_t at = text.find("\nnext ");
  return at == std::string::npos ? "" : text.substr(at + 1);
}

TEST(Text, NextAsksAboutDecodingOnlyWhereDecodingWasWaitedFor) {
  EXPECT_THAT(next_of(passed(0.5, 0, 0.5, 0)), HasSubstr("--payload bytes"));
  EXPECT_EQ(next_of(passed(0.5, 0, 0.1, 0.4)), "");
  emulate::RunResult stopped = passed(0.5, 0, 0.5, 0);
  stopped.is_interrupted = true;
  EXPECT_EQ(next_of(stopped), "");
}

TEST(Text, AnInterruptedRunSaysWhoIsLostOrWasAskedToStop) {
  emulate::RunResult result = two_epochs();
  result.is_interrupted = true;
  result.stopped_because = "no answer from rank 2 on host1: killed, crashed or stuck";
  EXPECT_THAT(run_summary(result, {}), HasSubstr("interrupted no answer from rank 2 on host1"));
  EXPECT_THAT(to_json(result), HasSubstr("\"stopped_because\": \"no answer from rank 2 on"));
}

TEST(Text, NextOfARunWithoutAMeasuredStepExcludesNone) {
  emulate::RunResult result = two_epochs();
  result.au = {};
  result.au.reason = "every step is excluded";
  EXPECT_THAT(next_of(result), HasSubstr("output.metric.exclude_start_steps=0"));
  result.resolved.workload.output.exclude_start_steps = 0;
  EXPECT_EQ(next_of(result), "");
}

TEST(Text, AnObjectStoreIsNamedWithItsServerAndItsRetries) {
  emulate::RunResult result = two_epochs();
  result.read_retries = 3;
  EXPECT_THAT(run_head(result, {}), HasSubstr("storage local\n"));
  EXPECT_THAT(run_summary(result, {}), HasSubstr("stale handle"));
  result.options.data = "s3://b/d";
  result.options.storage = "s3";
  result.store = "s3://b/d at http://127.0.0.1:9000";
  EXPECT_THAT(run_head(result, {}), HasSubstr("storage s3 at http://127.0.0.1:9000\n"));
  EXPECT_THAT(run_summary(result, {}), HasSubstr("3 S3 requests were tried again"));
}

TEST(DlioFiles, HostsAreListedAndShareTheData) {
  emulate::RunResult result = two_epochs();
  result.processes = 3;
  result.options.accelerators = 3;
  result.process_accelerators = {1, 1, 1};
  result.dataset.bytes = 3ull << 30;
  for (const uint64_t gib : {1, 2}) {
    emulate::HostResult host;
    host.host.name = "host" + std::to_string(gib);
    host.host.cpu_count_online = static_cast<int>(4 * gib);
    host.host.memory_bytes = gib << 30;
    host.processes = gib == 1 ? std::vector{0, 2} : std::vector{1};
    result.hosts.push_back(host);
  }
  for (emulate::EpochResult& epoch : result.epochs)
    epoch.ranks = {epoch.ranks[0], epoch.ranks[0], epoch.ranks[0]};
  std::map<std::string, json> files;
  for (const auto& [name, text] : dlio_files(result)) files[name] = json::parse(text);
  const json& summary = files["summary.json"];
  EXPECT_EQ(summary["num_hosts"], 2);
  EXPECT_EQ(summary["host_memory_GB"], json::parse("[1.0, 2.0]"));
  EXPECT_EQ(summary["host_cpu_count"], json::parse("[4, 8]"));
  EXPECT_EQ(summary["potential_caching"], json::parse("[0, 1]"));  // 1.5 GiB each
  EXPECT_EQ(summary["data_size_per_host_GB"], 1.5);
  EXPECT_EQ(files["1_output.json"]["hostname"], "host2");
  EXPECT_EQ(files["2_output.json"]["hostname"], "host1");
}

// One accelerator on the first host, three on the second, of a process that died on the third.
TEST(DlioFiles, UnevenAcceleratorsAreOnTheirOwnHosts) {
  emulate::RunResult result = two_epochs();
  result.processes = 3;
  result.options.accelerators = 5;
  result.process_accelerators = {1, 3, 1};
  for (const int process : {0, 1}) {
    emulate::HostResult host;
    host.host.name = "host" + std::to_string(process);
    host.cpuinfo = {{"model name", "cpu of " + host.host.name}};
    host.meminfo = {{"MemFree", "memory of " + host.host.name}};
    host.processes = {process};
    result.hosts.push_back(host);
  }
  for (emulate::EpochResult& epoch : result.epochs) {
    epoch.ranks.assign(5, epoch.ranks[0]);
    epoch.hosts.resize(2);
    for (const size_t row : {0, 1}) {
      epoch.hosts[row].name = "host" + std::to_string(row);
      epoch.hosts[row].meminfo = {{"MemFree", "then, of " + epoch.hosts[row].name}};
    }
  }
  std::map<std::string, json> files;
  for (const auto& [name, text] : dlio_files(result)) files[name] = json::parse(text);
  for (const int rank : {0, 1, 2, 3}) {
    const json& file = files[std::to_string(rank) + "_output.json"];
    const std::string host = rank == 0 ? "host0" : "host1";
    EXPECT_EQ(file["hostname"], host) << rank;
    EXPECT_EQ(file["host_cpuinfo"]["model name"], "cpu of " + host);
    EXPECT_EQ(file["host_meminfo"]["MemFree"], "memory of " + host);
    EXPECT_EQ(file["1"]["host_meminfo"]["MemFree"], "then, of " + host);
  }
  const json& dead = files["4_output.json"];
  EXPECT_TRUE(dead.contains("hostname") && dead["hostname"].is_null());
  EXPECT_TRUE(dead["host_cpuinfo"].is_null() && dead["1"]["host_meminfo"].is_null());
}

// A save and a restore by two ranks, 3 GiB in 2 and 4 s, and 1 and 3 s.
emulate::RunResult saved_and_restored() {
  emulate::RunResult result;
  result.resolved.workload.workflow.train = false;
  result.resolved.workload.workflow.checkpoint = true;
  result.options.accelerators = 2;
  result.process_accelerators = {2};
  result.state.bytes = 3ull << 30;
  emulate::CheckpointRecord save{.epoch = 1, .step = 1, .bytes = 3ull << 30, .start = 1, .end = 5};
  save.seconds = 4;
  save.ranks.resize(2);
  save.ranks[0].seconds = 2;
  save.ranks[1].seconds = 4;
  emulate::CheckpointRecord restore = save;
  restore.is_restore = true;
  restore.seconds = 3;
  restore.ranks[0].seconds = 1;
  restore.ranks[1].seconds = 3;
  result.checkpoints = {save};
  result.restores = {restore};
  emulate::summarise_run(result);
  return result;
}

TEST(DlioFiles, SavesAndRestoresHaveDliosFiguresOfEachRank) {
  std::map<std::string, json> files;
  for (const auto& [name, text] : dlio_files(saved_and_restored())) files[name] = json::parse(text);
  const json& metric = files["summary.json"]["metric"];  // of rank 0, in GiB
  EXPECT_EQ(metric["save_checkpoint_duration_mean_seconds"], 2);
  EXPECT_EQ(metric["save_checkpoint_io_mean_GB_per_second"], 1.5);
  EXPECT_EQ(metric["load_checkpoint_duration_mean_seconds"], 1);
  EXPECT_EQ(metric["load_checkpoint_io_mean_GB_per_second"], 3);
  EXPECT_EQ(metric["load_checkpoint_io_stdev_GB_per_second"], 0);
  EXPECT_EQ(metric["checkpoint_size_GB"], 3);
  const json& last = files["1_per_epoch_stats.json"]["1"];
  EXPECT_EQ(last["save_ckpt1"]["duration"], 4);
  EXPECT_EQ(last["load_ckpt1"]["throughput"], 1);
}

TEST(Text, SavesAndRestoresAreSummedUpOverRanks) {
  const std::string text = run_summary(saved_and_restored(), {});
  EXPECT_THAT(text, HasSubstr("saves       1 of 3.0 GiB, 4.00 s (mean), 805 MB/s = 0.75 GiB/s"));
  EXPECT_THAT(text, HasSubstr("restores    1 of 3.0 GiB, 3.00 s (mean)"));
  EXPECT_THAT(text, HasSubstr("p50 1.00 s   max 3.00 s   until a rank had its own"));
  EXPECT_THAT(dlio_metrics(saved_and_restored()),
              HasSubstr("[METRIC] Checkpoint load I/O Throughput (GB/second): 3.0000 (0.0000)\n"));
}

TEST(DlioLog, MetricsAreNamedAsDlioNamesThem) {
  emulate::RunResult result = two_epochs();
  result.options.accelerators = 1;
  const std::string text = dlio_metrics(result);
  EXPECT_THAT(text, HasSubstr("[METRIC] Number of Simulated Accelerators: 1 \n"));
  // 0.6 s of 3 included steps in a block of 1 s less the 0.3 s of the step left out.
  EXPECT_THAT(text, HasSubstr("Training Accelerator Utilization [AU] (%): 85.7143 (0.0000)\n"));
  EXPECT_THAT(text, HasSubstr("[METRIC] train_au_meet_expectation: fail\n"));
  EXPECT_THAT(text, Not(HasSubstr("Eval")));
  EXPECT_THAT(text, Not(HasSubstr("Checkpoint")));
  result.dlio_samples_per_second = {};
  EXPECT_THAT(dlio_metrics(result), HasSubstr("Training Throughput (samples/second): nan (nan)\n"));
}

TEST(DlioLog, ARunThatIsNotWholeFailsItsExpectationAndKeepsItsFigures) {
  emulate::RunResult whole = two_epochs();
  whole.resolved.workload.metric.au = 0.1;
  ASSERT_THAT(dlio_metrics(whole), HasSubstr("train_au_meet_expectation: success\n"));
  const auto summary = [](const emulate::RunResult& result) {
    return nlohmann::json::parse(dlio_files(result).front().second)["metric"];
  };
  const nlohmann::json before = summary(whole);
  ASSERT_EQ(before["train_au_meet_expectation"], "success");
  for (const int why : {0, 1, 2}) {
    emulate::RunResult result = whole;
    if (why == 0) result.is_interrupted = true;
    if (why == 1) result.error = "the server went away";
    if (why == 2) result.verdict.outcome = emulate::Verdict::Outcome::kIncomplete;
    EXPECT_THAT(dlio_metrics(result), HasSubstr("train_au_meet_expectation: fail\n")) << why;
    nlohmann::json now = summary(result);
    EXPECT_EQ(now["train_au_meet_expectation"], "fail") << why;
    now["train_au_meet_expectation"] = "success";
    EXPECT_EQ(now, before) << why;
  }
}

TEST(DlioLog, StepsAndBlocksOfAnEpochAreTold) {
  const emulate::RunResult result = two_epochs();
  const std::vector<DlioLine> steps = dlio_step_lines(result.epochs[0], 0, 4);
  ASSERT_EQ(steps.size(), 8u);
  EXPECT_EQ(steps[0].text, "Rank 0 step 1: loaded 4 samples in 0.100000 s");
  EXPECT_NEAR(steps[3].seconds, 0.6, 1e-9);
  const std::vector<DlioLine> lines = dlio_epoch_lines(result, result.epochs[0]);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0].text, "Starting block 1");
  EXPECT_EQ(lines[1].text, "Ending block 1 - 4 steps completed in 1.00 s");
  EXPECT_EQ(lines[5].text, "Ending epoch 1 - 4 steps completed in 1.00 s");
}

emulate::StallsFound stalls_of(std::vector<double> cold) {
  emulate::StallsFound found;
  found.workload = "a_workload_with_a_rather_long_name";
  found.accelerators = 4096;
  found.repeats = found.repeats_asked = static_cast<int>(cold.size());
  const std::vector<double> same(cold.size(), 0.01);
  for (const trace::RunKind kind : {trace::RunKind::kOne, trace::RunKind::kAll})
    found.times[kind].seconds = same;
  found.times[trace::RunKind::kWarm].seconds = std::vector<double>(cold.size(), 12.5);
  found.times[trace::RunKind::kCold].seconds = std::move(cold);
  found.times[trace::RunKind::kHosts].reason =
      "a reason that is longer than what is left of a line of a terminal of eighty columns";
  found.stalls = trace::differential_stalls(found.times);
  found.notes = {
      "a note of many words, so that it takes more than a line when it is shown to "
      "those who look at it"};
  found.rates.reason = "not measured";
  found.cache = trace::cache_share(found.rates);
  found.pace = trace::pace_model(found.cache, 8, found.stalls[trace::RunKind::kCold]);
  found.cold_cached_share = emulate::Figure::none("unknown file system");
  return found;
}

TEST(Stalls, FitATerminalWhateverTheyAre) {
  for (const std::vector<double>& cold : {std::vector<double>{12.4}, {123.4, 150.0}, {2.0, 3.0}}) {
    const std::string text = stalls_text(stalls_of(cold));
    for (const std::string_view line : base::split(text, '\n')) EXPECT_LE(line.size(), 80u) << line;
    EXPECT_THAT(text, HasSubstr("T4  all, real data, warm"));
  }
}

TEST(Stalls, SayHowANegativeOneIsToBeTaken) {
  EXPECT_THAT(stalls_text(stalls_of({12.25})), HasSubstr("0 for -250.0 ms: one repeat"));
  EXPECT_THAT(stalls_text(stalls_of({2.0, 3.0})), HasSubstr("0 for -10000 ms: more than"));
  EXPECT_THAT(stalls_text(stalls_of({10.0, 14.0})), HasSubstr("0 for -500.0 ms: within"));
}

TEST(Stalls, AreCompleteJson) {
  const auto written = nlohmann::json::parse(stalls_json(stalls_of({2.0, 3.0})));
  EXPECT_EQ(written["stalls"]["fetch"]["ms"], 0);
  EXPECT_NEAR(written["stalls"]["fetch"]["difference_ms"].get<double>(), -10'000, 1e-6);
  EXPECT_EQ(written["stalls"]["fetch"]["is_negative_beyond_noise"], true);
  EXPECT_TRUE(written["stalls"]["network"]["ms"].is_null());
  EXPECT_THAT(written["stalls"]["network"]["reason"], HasSubstr("T5 was not run"));
  EXPECT_TRUE(written["cold_cached_share"].is_null());
  EXPECT_EQ(written["cold_cached_share_reason"], "unknown file system");
  EXPECT_TRUE(written["memory"]["share"]["value"].is_null());
  EXPECT_EQ(written["runs"]["T3"]["repeats_ms"].size(), 2u);
}

}  // namespace
}  // namespace forebay::report
