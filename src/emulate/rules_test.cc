// Sizes against mlpstorage's arithmetic and against the rule itself; each rule broken one by one.
#include "emulate/rules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.h"

namespace forebay::emulate {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Outcome = RulesReport::Outcome;

constexpr uint64_t kGiB = 1 << 30;

workload::Resolved resolved(std::string_view name, const std::vector<std::string>& overrides = {}) {
  auto result = workload::resolve(name, overrides);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? std::move(result).value() : workload::Resolved();
}

// --- Sizes ---

TEST(RequiredSize, OfUnet3dIsDecidedByMemory) {
  // 4 hosts of 256 GiB with 8 accelerators each: 5 x 1 TiB over 146,600,628 bytes a file.
  const auto size = required_size(resolved("unet3d_h100").workload,
                                  {.accelerators = 32, .total_memory_bytes = 1024 * kGiB});
  ASSERT_TRUE(size.ok());
  EXPECT_EQ(size->files_for_steps, 500u * 32 * 7);
  EXPECT_EQ(size->files_for_memory, 37501u);
  EXPECT_EQ(size->files, 112000u);
  EXPECT_EQ(size->reference_files, 112000u);
  EXPECT_EQ(size->steps_per_epoch, 500u);
  EXPECT_EQ(size->subfolders, 0u);
  EXPECT_NEAR(*size->samples_per_second, 7 / 0.323, 1e-9);
  EXPECT_NEAR(*size->bytes_per_second, 3.18e9, 0.01e9);
  // npz files of 12107 x 12107 and their zip parts.
  EXPECT_NEAR(static_cast<double>(*size->disk_bytes), 112000 * 146579449.0, 112000 * 2000.0);
}

// The bound that jpeg gives is more than three times what noise takes.
TEST(RequiredSize, OnDiskIsMeasuredWhereTheFormatOnlyBoundsIt) {
  const workload::Resolved retinanet = resolved("retinanet_b200");
  const auto size =
      required_size(retinanet.workload, {.accelerators = 1, .total_memory_bytes = 1 * kGiB});
  ASSERT_TRUE(size.ok() && size->disk_bytes);
  const double share = static_cast<double>(*size->disk_bytes) / static_cast<double>(size->bytes);
  EXPECT_GT(share, 0.5);
  EXPECT_LT(share, 0.65);
  EXPECT_FALSE(size->is_disk_bytes_bound);
}

TEST(RequiredSize, OnDiskIsABoundForFilesTooLargeToBeMade) {
  workload::Workload workload = resolved("unet3d_h100").workload;
  workload.dataset.record_length_bytes = 1e12;
  const auto size = required_size(workload, {.accelerators = 1, .total_memory_bytes = kGiB});
  ASSERT_TRUE(size.ok() && size->disk_bytes);
  EXPECT_GE(*size->disk_bytes, size->bytes / 100 * 99);
  EXPECT_TRUE(size->is_disk_bytes_bound);
}

TEST(RequiredSize, IsAFileMoreThanTheReferenceWhereItRoundsDown) {
  const auto size = required_size(resolved("unet3d_h100").workload,
                                  {.accelerators = 1, .total_memory_bytes = 256 * kGiB});
  EXPECT_EQ(size->files, 9376u);
  EXPECT_EQ(size->reference_files, 9375u);
  // resnet50: 500 steps x 400 samples over 1251 samples a file are 159.87 files.
  const auto resnet = required_size(resolved("resnet50_h100").workload,
                                    {.accelerators = 1, .total_memory_bytes = 1 * kGiB});
  EXPECT_EQ(resnet->files, 160u);
  EXPECT_EQ(resnet->reference_files, 159u);
  EXPECT_GE(resnet->steps_per_epoch, 500u);
}

TEST(RequiredSize, SpreadsManyFilesOverFolders) {
  const auto size = required_size(resolved("cosmoflow_h100").workload,
                                  {.accelerators = 512, .total_memory_bytes = 1 * kGiB});
  EXPECT_EQ(size->files, 256000u);
  EXPECT_EQ(size->subfolders, 2u);
}

TEST(RequiredSize, MeetsTheRuleForAnyNumbersAndNeverByMoreThanAFile) {
  base::Random random(7);
  workload::Workload workload = resolved("resnet50_h100").workload;
  for (int i = 0; i < 2000; ++i) {
    workload.dataset.num_samples_per_file = 1 + random.below(5000);
    workload.dataset.record_length_bytes = 1 + random.uniform() * 1e9;
    workload.reader.batch_size = 1 + random.below(1000);
    const SizeRequest request{.accelerators = 1 + random.below(5000),
                              .total_memory_bytes = random.below(1ULL << 44)};
    const auto size = required_size(workload, request);
    ASSERT_TRUE(size.ok()) << size.error().message;
    const double file = static_cast<double>(workload.dataset.num_samples_per_file) *
                        workload.dataset.record_length_bytes;
    const double memory = 5 * static_cast<double>(request.total_memory_bytes);
    const auto meets = [&](uint64_t files) {
      const uint64_t samples = files * workload.dataset.num_samples_per_file;
      return static_cast<double>(files) * file >= memory &&
             samples / (request.accelerators * workload.reader.batch_size) >= 500;
    };
    EXPECT_TRUE(meets(size->files));
    EXPECT_FALSE(meets(size->files - 1));
    EXPECT_GE(size->steps_per_epoch, 500u);
    EXPECT_TRUE(size->reference_files == size->files || size->reference_files + 1 == size->files)
        << size->reference_files << " " << size->files;
  }
}

TEST(RequiredSize, RefusesNumbersThatCannotBeCounted) {
  workload::Workload workload = resolved("unet3d_h100").workload;
  workload.reader.batch_size = 1'000'000'000;
  EXPECT_FALSE(required_size(workload, {.accelerators = 1'000'000'000}).ok());
}

// --- Runs ---

// A run of unet3d_h100 that keeps every rule of v2.0.
RunResult good_run(std::string_view name = "unet3d_h100",
                   const std::vector<std::string>& overrides = {}) {
  RunResult result;
  result.resolved = resolved(name, overrides);
  result.options.accelerators = 1;
  result.host.memory_bytes = 16 * kGiB;
  result.steps_per_epoch = 500;
  result.dataset.samples = result.dataset.files = 3500;
  result.dataset.bytes = 3500 * uint64_t{146579449};
  result.cached_share = Figure::of(0.02);
  result.au = {.mean = 0.93, .stdev = std::nullopt, .n = 5, .reason = ""};
  result.verdict.outcome = Verdict::Outcome::kPass;
  result.verdict.gate = 0.9;
  return result;
}

std::vector<std::string> texts(const RulesReport& report) {
  std::vector<std::string> all;
  for (const RulesReport::Finding& finding : report.findings)
    all.push_back(finding.rule + ": " + finding.text);
  return all;
}

TEST(Rules, AcceptARunThatKeepsThem) {
  const RulesReport report = check_rules(good_run(), RuleSet::kMlperfV2);
  EXPECT_EQ(report.outcome, Outcome::kValid) << testing::PrintToString(texts(report));
  EXPECT_THAT(texts(report), IsEmpty());
  EXPECT_THAT(report.not_checked, Contains(HasSubstr("five such runs")));
  EXPECT_EQ(report.rules, "mlperf-v2.0");
}

TEST(Rules, AllowTheKeysOfTheClosedDivision) {
  const RunResult result =
      good_run("unet3d_h100",
               {"dataset.num_files_train=3500", "dataset.num_subfolders_train=4",
                "dataset.data_folder=/mnt/d", "reader.read_threads=16",
                "reader.computation_threads=4", "reader.transfer_size=4MiB", "reader.odirect=true",
                "reader.prefetch_size=1", "checkpoint.checkpoint_folder=/mnt/c",
                "storage.storage_root=/", "output.folder=r", "train.seed=7"});
  EXPECT_THAT(texts(check_rules(result, RuleSet::kMlperfV2)), IsEmpty());
}

TEST(Rules, ListEachViolation) {
  struct Case {
    std::function<void(RunResult&)> breaks;
    std::string_view finding;
  };
  const Case cases[] = {
      {[](RunResult& r) { r.steps_per_epoch = 499; }, "steps: 499 steps an epoch, but 500"},
      {[](RunResult& r) { r.host.memory_bytes = 128 * kGiB; },
       "data set size: 3500 samples in files of"},
      {[](RunResult& r) { r.cached_share = Figure::of(0.5); }, "cache: 50 % of the bytes"},
      {[](RunResult& r) { r.options.cache = "warm"; }, "cache: --cache warm"},
      {[](RunResult& r) { r.options.barrier = false; }, "barrier: --no-barrier"},
      {[](RunResult& r) { r.options.payload = "bytes"; }, "payload: --payload bytes"},
      {[](RunResult& r) { r.options.storage = "null:files=3"; }, "storage: --storage null:files=3"},
      {[](RunResult& r) { r.options.storage = "direct"; }, "storage: --storage direct"},
      {[](RunResult& r) { r.options.storage = "uring:direct=true"; },
       "storage: --storage uring:direct=true reads past the page cache"},
      {[](RunResult& r) { r.options.storage = "uring:depth=8,direct=true"; },
       "storage: --storage uring:depth=8,direct=true reads past the page cache"},
      {[](RunResult& r) { r.bad_count = 1; }, "whole run: 1 samples were bad"},
      {[](RunResult& r) { r.is_interrupted = true; }, "whole run: the run was interrupted"},
      {[](RunResult& r) { r.error = "disk gone"; }, "whole run: the run failed: disk gone"},
      {[](RunResult& r) { r.au.mean = 0.894; }, "AU: 89.40 %, but 90 % is the least"},
      {[](RunResult& r) { r.au = {.mean = {}, .stdev = {}, .n = 0, .reason = "no steps"}; },
       "AU: not measured: no steps"},
  };
  for (const Case& one : cases) {
    RunResult result = good_run();
    one.breaks(result);
    const RulesReport report = check_rules(result, RuleSet::kMlperfV2);
    EXPECT_EQ(report.outcome, Outcome::kInvalid) << one.finding;
    EXPECT_THAT(texts(report), ElementsAre(HasSubstr(std::string(one.finding))));
  }
}

TEST(Rules, NameFixedParametersThatWereChanged) {
  for (const char* override_text :
       {"train.epochs=3", "train.computation_time=0.5", "reader.batch_size=8", "metric.au=0.5",
        "output.metric.exclude_start_steps=2", "reader.sample_shuffle=off",
        "reader.pin_memory=false", "dataset.record_length_bytes=146600629"}) {
    const std::string text = override_text;
    const RulesReport report = check_rules(good_run("unet3d_h100", {text}), RuleSet::kMlperfV2);
    EXPECT_EQ(report.outcome, Outcome::kInvalid) << text;
    EXPECT_THAT(texts(report), ElementsAre(HasSubstr(text.substr(0, text.find('=')) + " is ")));
  }
  const RulesReport deep =
      check_rules(good_run("unet3d_h100", {"reader.prefetch_size=3"}), RuleSet::kMlperfV2);
  EXPECT_THAT(texts(deep), ElementsAre(HasSubstr("reader.prefetch_size is 3, but may be at most")));
}

TEST(Rules, LeaveSomeChangesToTheOpenDivision) {
  const RulesReport report =
      check_rules(good_run("unet3d_h100", {"dataset.format=npy", "reader.data_loader=dali"}),
                  RuleSet::kMlperfV2);
  EXPECT_EQ(report.outcome, Outcome::kOpen);
  EXPECT_EQ(report.findings.size(), 2u);
  const RulesReport worse = check_rules(
      good_run("unet3d_h100", {"dataset.format=npy", "train.epochs=1"}), RuleSet::kMlperfV2);
  EXPECT_EQ(worse.outcome, Outcome::kInvalid);
}

TEST(Rules, WantCheckpointsOfUnet3dInVersion2Only) {
  const RunResult without = good_run("unet3d_h100", {"workflow.checkpoint=false"});
  EXPECT_THAT(texts(check_rules(without, RuleSet::kMlperfV2)),
              ElementsAre(HasSubstr("workflow.checkpoint is false")));
  const RulesReport v3 = check_rules(good_run("unet3d_b200"), RuleSet::kMlperfV3);
  EXPECT_EQ(v3.outcome, Outcome::kValid) << testing::PrintToString(texts(v3));
}

TEST(Rules, AllowDirectReadsOfUnet3dOnly) {
  RunResult unet = good_run("unet3d_h100", {"reader.odirect=true"});
  unet.options.storage = "direct";
  EXPECT_THAT(texts(check_rules(unet, RuleSet::kMlperfV2)), IsEmpty());
  RunResult resnet = good_run("resnet50_h100", {"reader.odirect=true"});
  resnet.dataset.files = 2398;
  resnet.dataset.samples = resnet.dataset.files * 1251;
  resnet.dataset.bytes = resnet.dataset.samples * 114260;
  EXPECT_THAT(texts(check_rules(resnet, RuleSet::kMlperfV2)),
              ElementsAre(HasSubstr("only unet3d may set")));
}

TEST(Rules, KnowTheirWorkloads) {
  EXPECT_THAT(texts(check_rules(good_run("demo"), RuleSet::kMlperfV2)),
              Contains(HasSubstr("demo is none of mlperf-v2.0's: unet3d_a100, unet3d_h100")));
  EXPECT_THAT(texts(check_rules(good_run(), RuleSet::kMlperfV3)),
              Contains(HasSubstr("unet3d_h100 is none of mlperf-v3.0's")));
  RunResult flux = good_run("flux_b200");
  flux.dataset.samples = 1'000'000;
  flux.dataset.bytes = 1ULL << 41;
  EXPECT_EQ(check_rules(flux, RuleSet::kMlperfV3).outcome, Outcome::kOpen);
  for (const RuleSet rules : {RuleSet::kMlperfV2, RuleSet::kMlperfV3}) {
    EXPECT_EQ(rule_set_from_name(rule_set_name(rules)), rules);
    EXPECT_EQ(rule_set_from_name(rule_set_name(rules).substr(7)), rules);
    // Each is a built-in, with the AU that the rules want.
    for (const workload::Builtin& builtin : workload::builtin_workloads()) {
      const RuledWorkload* ruled = find_ruled_workload(rules, builtin.name);
      if (ruled == nullptr) continue;
      EXPECT_EQ(resolved(builtin.name).workload.metric.au, ruled->au) << builtin.name;
    }
  }
  EXPECT_EQ(rule_set_from_name("v1.0"), std::nullopt);
}

TEST(Rules, CountTheMemoryOfAllHostsAndWantThemAlike) {
  RunResult result = good_run();
  result.hosts.resize(2);
  for (HostResult& host : result.hosts) {
    host.host.name = "node";
    host.host.memory_bytes = 16 * kGiB;
    host.accelerators = 1;
  }
  EXPECT_THAT(texts(check_rules(result, RuleSet::kMlperfV2)), IsEmpty());
  result.hosts[1].host.memory_bytes = 128 * kGiB;
  EXPECT_THAT(texts(check_rules(result, RuleSet::kMlperfV2)),
              ElementsAre(HasSubstr("5 times the memory of all hosts is 773 GB")));
  result.hosts[1].host.memory_bytes = 16 * kGiB;
  result.hosts[1].accelerators = 2;
  EXPECT_THAT(texts(check_rules(result, RuleSet::kMlperfV2)),
              ElementsAre(HasSubstr("node has 2 accelerators and node has 1")));
}

TEST(Rules, CountTheBytesThatAreThereAndNameRecordsOfOtherSizes) {
  RunResult result = good_run();
  result.dataset.bytes = 3500 * uint64_t{400'000};
  EXPECT_THAT(texts(check_rules(result, RuleSet::kMlperfV2)),
              ElementsAre(HasSubstr("data set size: 3500 samples in files of 1.40 GB together"),
                          HasSubstr("record size: the files hold 400 kB a sample, but")));
  result.host.memory_bytes = kGiB / 8;
  EXPECT_THAT(texts(check_rules(result, RuleSet::kMlperfV2)),
              ElementsAre(HasSubstr("record size: the files hold")));
}

TEST(Rules, SayThatEncodedFilesMayFitIntoMemory) {
  RunResult result = good_run("retinanet_b200");
  result.dataset.samples = result.dataset.files = 300'000;
  result.dataset.bytes = 80 * kGiB - 1;
  const RulesReport report = check_rules(result, RuleSet::kMlperfV3);
  EXPECT_EQ(report.outcome, Outcome::kValid) << testing::PrintToString(texts(report));
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("the rules count nominal sizes")));
}

// --- Checkpoints ---

// A run of llama3_8b on 8 ranks of one host that keeps every rule of v2.0.
RunResult good_checkpoints(const std::vector<std::string>& overrides = {},
                           std::string_view name = "llama3_8b") {
  RunResult result;
  result.resolved = resolved(name, overrides);
  result.options.accelerators = 8;
  result.host.name = "node";
  CheckpointRecord save{.bytes = 1000};
  save.is_synced = true;
  CheckpointRecord restore{.is_restore = true, .bytes = 1000};
  restore.cached_bytes = 0;
  result.checkpoints.assign(10, save);
  result.restores.assign(10, restore);
  return result;
}

TEST(CheckpointRules, AcceptARunThatKeepsThem) {
  const std::vector<std::string> free{"checkpoint.checkpoint_folder=/mnt/c", "train.seed=7",
                                      "storage.storage_root=/mnt"};
  const RulesReport report = check_rules(good_checkpoints(free), RuleSet::kMlperfV2);
  EXPECT_THAT(texts(report), IsEmpty());
  EXPECT_EQ(report.outcome, Outcome::kValid);
}

TEST(CheckpointRules, ListEachViolation) {
  struct Case {
    std::function<void(RunResult&)> breaks;
    std::string_view finding;
  };
  const Case cases[] = {
      {[](RunResult& r) { r.checkpoints.resize(9); }, "times: 9 saves, but 10 are due"},
      {[](RunResult& r) { r.restores.resize(3); }, "times: 3 restores, but 10 are due"},
      {[](RunResult& r) { r.checkpoints[4].is_synced = false; }, "fsync: checkpoint.fsync is"},
      {[](RunResult& r) { r.restores[9].cached_bytes = 20; }, "cache: 2 % of a restore's bytes"},
      {[](RunResult& r) { r.options.cache = "warm"; }, "cache: --cache warm"},
      {[](RunResult& r) { r.options.accelerators = 16; }, "ranks: 16 ranks, but llama3_8b has 8"},
      {[](RunResult& r) { r.options.storage = "null"; }, "storage: --storage null is no storage"},
      {[](RunResult& r) { r.options.storage = "direct"; }, "storage: --storage direct goes past"},
      {[](RunResult& r) { r.error = "disk gone"; }, "whole run: the run failed: disk gone"},
      {[](RunResult& r) { r = good_checkpoints({"model.num_layers=2"}); },
       "parameters: model.num_layers is 2"},
      {[](RunResult& r) { r = good_checkpoints({"checkpoint.tiers=[/fast, /slow]"}); },
       "parameters: checkpoint.tiers is"},
      {[](RunResult& r) { r = good_checkpoints({}, "llama_8b_zero3"); },
       "workload: llama_8b_zero3 is none of mlperf-v2.0's for checkpoints: llama3_8b, "},
  };
  for (const Case& one : cases) {
    RunResult result = good_checkpoints();
    one.breaks(result);
    const RulesReport report = check_rules(result, RuleSet::kMlperfV2);
    EXPECT_EQ(report.outcome, Outcome::kInvalid) << one.finding;
    EXPECT_THAT(texts(report), ElementsAre(HasSubstr(std::string(one.finding))));
  }
  EXPECT_THAT(texts(check_rules(good_checkpoints(), RuleSet::kMlperfV3)),
              ElementsAre(HasSubstr("only mlperf-v2.0's rules for checkpoints are known")));
}

TEST(CheckpointRules, LetSavesAndRestoresBeRunsOfTheirOwn) {
  RunResult saves = good_checkpoints({"checkpoint.num_checkpoints_read=0"});
  saves.restores.clear();
  const RulesReport first = check_rules(saves, RuleSet::kMlperfV2);
  EXPECT_THAT(texts(first), IsEmpty());
  EXPECT_THAT(first.not_checked, Contains(HasSubstr("ten restores: a run of their own")));
  RunResult restores = good_checkpoints({"checkpoint.num_checkpoints_write=0"});
  restores.checkpoints.clear();
  EXPECT_THAT(texts(check_rules(restores, RuleSet::kMlperfV2)), IsEmpty());
  restores.restores.front().cached_bytes.reset();
  restores.restores.front().cached_unknown = "another host's";
  EXPECT_THAT(check_rules(restores, RuleSet::kMlperfV2).not_checked,
              Contains(HasSubstr("another host's")));
}

TEST(CheckpointRules, LetEightRanksStandForAJobThatIsTooLarge) {
  for (const char* copies : {"2", "3"}) {
    const RunResult result = good_checkpoints(
        {"checkpoint.mode=subset", fmt::format("model.parallelism.data={}", copies)},
        "llama3_405b");
    const std::vector<std::string> found = texts(check_rules(result, RuleSet::kMlperfV2));
    if (std::string_view(copies) == "2")
      EXPECT_THAT(found, IsEmpty());
    else
      EXPECT_THAT(found, ElementsAre(HasSubstr("of 3 copies of the model, but 8 of 2 stand")));
  }
}

TEST(CheckpointRules, WantFourRanksOnEachHostAndAsManyOnAll) {
  RunResult result = good_checkpoints();
  result.hosts.resize(2);
  for (HostResult& host : result.hosts) host.accelerators = 4;
  EXPECT_THAT(texts(check_rules(result, RuleSet::kMlperfV2)), IsEmpty());
  result.hosts[0].accelerators = 5;
  result.hosts[1].accelerators = 3;
  EXPECT_THAT(texts(check_rules(result, RuleSet::kMlperfV2)),
              ElementsAre(HasSubstr("all must have as many"),
                          HasSubstr("has 3 ranks, but 4 are the least")));
}

TEST(Rules, SayWhenTheCacheCouldNotBeSeen) {
  RunResult result = good_run();
  result.cached_share = Figure::none("the kernel does not tell");
  EXPECT_THAT(check_rules(result, RuleSet::kMlperfV2).not_checked,
              Contains(HasSubstr("the kernel does not tell")));
}

}  // namespace
}  // namespace forebay::emulate
