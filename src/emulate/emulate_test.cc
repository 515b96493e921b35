// Runs on a manual scale: null and memory stores, short computes, and the arithmetic of figures.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/test_folder.h"
#include "dataset/generator.h"
#include "emulate/data_source.h"
#include "emulate/find_max.h"
#include "emulate/inspection.h"
#include "emulate/metrics.h"
#include "emulate/runner.h"
#include "emulate/schedule.h"
#include "emulate/verdict.h"
#include "trace/recorder.h"
#include "trace/testing_memory.h"

namespace forebay::emulate {
namespace {

using testing::HasSubstr;

class Runs : public testing::Test {
 protected:
  void generate(uint64_t train, uint64_t valid = 0, double bytes = 2000) {
    dataset::GeneratorOptions options;
    options.files_train = train;
    options.files_valid = valid;
    options.record_bytes = bytes;
    generate_files("npz", options);
  }

  void generate_format(std::string_view format, uint64_t files, uint64_t samples, double bytes) {
    dataset::GeneratorOptions options;
    options.files_train = files;
    options.samples_per_file = samples;
    options.record_bytes = bytes;
    generate_files(format, options);
  }

  void generate_files(std::string_view format, dataset::GeneratorOptions options) {
    options.format = formats::find_format(format);
    options.sync = false;
    auto store = std::move(storage::open_store("local", folder_)).value();
    const auto made = dataset::generate(*store, options, [](const auto&) {}, {});
    ASSERT_TRUE(made.ok()) << made.error().message;
  }

  RunRequest request(std::vector<std::string> overrides, int accelerators = 1) {
    overrides.insert(
        overrides.begin(),
        {"dataset.num_files_train=8", "dataset.num_files_eval=0", "workflow.evaluation=False",
         "dataset.num_subfolders_train=0", "dataset.num_subfolders_eval=0",
         "train.computation_time=0.002", "train.epochs=1"});
    RunRequest request;
    auto resolved = workload::resolve("default", overrides);
    EXPECT_TRUE(resolved.ok()) << resolved.error().message;
    request.resolved = std::move(resolved).value();
    request.options.data = folder_;
    request.options.accelerators = accelerators;
    return request;
  }

  RunResult run_ok(const RunRequest& asked) {
    Observer observer;
    Result<RunResult> result = run(asked, observer, {});
    EXPECT_TRUE(result.ok()) << result.error().message;
    return std::move(result).value();
  }

  Error run_error(const RunRequest& asked) {
    Observer observer;
    const Result<RunResult> result = run(asked, observer, {});
    EXPECT_FALSE(result.ok());
    return result.ok() ? Error{} : result.error();
  }

  const base::TestFolder own_{"emulate"};
  const std::string folder_ = own_ / "data";
};

TEST_F(Runs, EveryAcceleratorDoesTheSameStepsAndTheRestIsReported) {
  // 145 files, batch 16, 3 accelerators: 3 steps each, 144 samples used, 1 left out.
  generate(145, 0, 100);
  const RunResult result =
      run_ok(request({"dataset.num_files_train=145", "reader.batch_size=16", "train.epochs=2"}, 3));
  ASSERT_EQ(result.epochs.size(), 2u);
  for (const EpochResult& epoch : result.epochs) {
    EXPECT_EQ(epoch.steps, 3u);
    EXPECT_EQ(epoch.samples, 144u);
  }
  EXPECT_EQ(result.samples_left_out, 1u);
  EXPECT_THAT(result.warnings, testing::Contains(HasSubstr("1 of 145 samples are left out")));
}

TEST_F(Runs, HundredSamplesOnSevenAcceleratorsLeaveSixteenOut) {
  generate(100, 0, 100);
  const RunResult result =
      run_ok(request({"dataset.num_files_train=100", "reader.batch_size=3"}, 7));
  EXPECT_EQ(result.steps_per_epoch, 4u);
  EXPECT_EQ(result.samples_left_out, 16u);
}

TEST_F(Runs, FewStepsGiveNotMeasuredInsteadOfZero) {
  generate(8);
  for (const auto& [batch, steps] : {std::pair{8, 1}, {4, 2}, {2, 4}}) {
    const RunResult result = run_ok(request({fmt::format("reader.batch_size={}", batch)}));
    ASSERT_EQ(result.epochs[0].steps, static_cast<uint64_t>(steps));
    EXPECT_EQ(result.epochs[0].included_steps, static_cast<uint64_t>(steps - 1));
    EXPECT_EQ(result.au.mean.has_value(), steps > 1);
    if (steps == 1) {
      EXPECT_EQ(result.verdict.outcome, Verdict::Outcome::kNotMeasured);
      EXPECT_THAT(result.verdict.reason, HasSubstr("excluded"));
    }
  }
}

TEST_F(Runs, TooFewSamplesForAStepIsRefusedWithTheNumbers) {
  generate(8);
  const Error error = run_error(request({"reader.batch_size=16"}));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message,
              HasSubstr("8 samples do not fill one step of 1 accelerator x batch 16"));
}

TEST_F(Runs, FewerFilesThanAskedIsRefusedWithTheRemedy) {
  generate(4);
  const Error error = run_error(request({"reader.batch_size=1"}));
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("dataset.num_files_train=4"));
}

TEST_F(Runs, NoComputeTimeGivesThroughputButNoAu) {
  generate(8);
  const RunResult result = run_ok(request({"train.computation_time=0", "reader.batch_size=1"}));
  EXPECT_FALSE(result.au.mean.has_value());
  EXPECT_THAT(result.au.reason, HasSubstr("no compute time"));
  EXPECT_TRUE(result.samples_per_second.mean.has_value());
}

TEST_F(Runs, TimePartsAddUpToTheWall) {
  generate(8);
  const RunResult result = run_ok(request({"reader.batch_size=1"}, 2));
  for (const EpochResult& epoch : result.epochs)
    for (const RankEpoch& rank : epoch.ranks)
      EXPECT_NEAR(rank.split.total(), rank.included_seconds, 1e-6);
}

TEST_F(Runs, SlowStorageIsBlamedAndCountedInAccelerators) {
  generate(16);
  RunRequest asked = request({"dataset.num_files_train=16", "reader.batch_size=1",
                              "reader.read_threads=1", "reader.prefetch_size=1"});
  asked.options.storage = "slow:latency=8ms,over=local";
  const RunResult result = run_ok(asked);
  EXPECT_EQ(result.verdict.outcome, Verdict::Outcome::kFail);
  EXPECT_GT(result.split.fetch, result.split.decode);
  ASSERT_TRUE(result.verdict.accelerators_fed.value.has_value());
  EXPECT_EQ(*result.verdict.accelerators_fed.value, 0);
  EXPECT_FALSE(result.verdict.is_lower_bound);
}

TEST_F(Runs, StepCheckpointsWinOverEpochOnesAndAreCountedAsStall) {
  generate(8);
  const std::string saves = folder_ + "/saves";
  const RunResult result = run_ok(
      request({"workflow.checkpoint=True", "checkpoint.steps_between_checkpoints=4",
               "checkpoint.checkpoint_after_epoch=2", "train.epochs=3", "reader.batch_size=1",
               "model.model_size_bytes=100000", "checkpoint.checkpoint_folder=" + saves}));
  ASSERT_EQ(result.checkpoints.size(), 6u);  // after steps 4 and 8 of each epoch
  EXPECT_GT(result.split.checkpoint, 0);
  EXPECT_EQ(result.checkpoints[3].step, 8u);
  const std::string file = saves + "/" + result.checkpoints[3].path + "/model_states-0.safetensors";
  EXPECT_EQ(std::filesystem::file_size(file), 4096u + 100000);
}

TEST_F(Runs, EpochCheckpointsFollowTheirKeys) {
  generate(8);
  const RunResult result =
      run_ok(request({"workflow.checkpoint=True", "checkpoint.checkpoint_after_epoch=2",
                      "checkpoint.epochs_between_checkpoints=2", "train.epochs=5",
                      "checkpoint.checkpoint_folder=" + folder_ + "/saves"}));
  ASSERT_EQ(result.checkpoints.size(), 2u);
  EXPECT_EQ(result.checkpoints[0].epoch, 2u);
  EXPECT_EQ(result.checkpoints[1].epoch, 4u);
}

TEST_F(Runs, EvaluationHasItsOwnEpochsAndLeavesTrainingAlone) {
  generate(8, 4);
  const RunResult result =
      run_ok(request({"workflow.evaluation=True", "dataset.num_files_eval=4", "train.epochs=2",
                      "evaluation.eval_time=0.001", "reader.batch_size=2"}));
  ASSERT_EQ(result.epochs.size(), 4u);
  EXPECT_TRUE(result.epochs[1].is_evaluation);
  EXPECT_EQ(result.epochs[1].samples, 4u);
  EXPECT_EQ(result.au.n, 2u);
}

TEST_F(Runs, EvaluationVisitsEverySampleOnce) {
  generate(8, 11);
  const RunResult result = run_ok(
      request({"workflow.evaluation=True", "dataset.num_files_eval=11",
               "evaluation.eval_time=0.001", "reader.batch_size_eval=1", "reader.batch_size=1"},
              4));
  EXPECT_EQ(result.epochs[1].samples, 11u);
  EXPECT_EQ(result.epochs[1].steps, 3u);
}

TEST_F(Runs, OneAllowanceOfBadRecordsHoldsForAllAccelerators) {
  generate(8, 4);
  for (int i = 0; i < 4; ++i)
    std::ofstream(fmt::format("{}/train/img_{}_of_8.npz", folder_, i), std::ios::trunc)
        << "PK junk";
  std::ofstream(folder_ + "/valid/img_1_of_4.npz", std::ios::trunc) << "PK junk";
  RunRequest asked = request({"workflow.evaluation=True", "dataset.num_files_eval=4",
                              "evaluation.eval_time=0.001", "reader.batch_size=1"},
                             2);
  asked.options.on_error = "skip";
  EXPECT_EQ(run_ok(asked).bad_count, 5u);  // evaluation's too
  asked.options.errors_max = 3;
  EXPECT_THAT(run_ok(asked).error, HasSubstr("more than 3 bad records"));
}

TEST_F(Runs, SkippedSamplesAreNoThroughput) {
  generate(16);
  for (int i = 0; i < 16; i += 2)
    std::ofstream(fmt::format("{}/train/img_{:02}_of_16.npz", folder_, i), std::ios::trunc)
        << "junk";
  RunRequest asked =
      request({"dataset.num_files_train=16", "reader.batch_size=2", "train.computation_time=0.01"});
  for (const auto& [policy, included] : {std::pair("skip", 7u), std::pair("replace", 14u)}) {
    asked.options.on_error = policy;
    const EpochResult epoch = run_ok(asked).epochs.at(0);
    EXPECT_EQ(epoch.ranks.at(0).included_samples, included) << policy;
    EXPECT_DOUBLE_EQ(*epoch.samples_per_second.value, included / epoch.ranks[0].included_seconds);
  }
}

TEST_F(Runs, CapOfTrainingStepsHoldsInEachEpoch) {
  generate(8);
  const RunResult result =
      run_ok(request({"reader.batch_size=1", "train.total_training_steps=3", "train.epochs=2"}));
  EXPECT_EQ(result.epochs[0].steps, 3u);
  EXPECT_EQ(result.epochs[1].steps, 3u);
}

TEST_F(Runs, BadRecordsAreNamedWhenSkippedAndEndTheRunOtherwise) {
  generate(8);
  std::ofstream(folder_ + "/train/img_3_of_8.npz", std::ios::trunc) << "PK junk";
  RunRequest asked = request({"reader.batch_size=2"});
  asked.options.on_error = "skip";
  const RunResult skipped = run_ok(asked);
  EXPECT_EQ(skipped.bad_count, 1u);
  EXPECT_THAT(skipped.bad_records[0].cause, HasSubstr("img_3_of_8.npz"));
  EXPECT_EQ(skipped.epochs[0].samples, 7u);
  asked.options.on_error = "raise";
  const RunResult raised = run_ok(asked);
  EXPECT_THAT(raised.error, HasSubstr("img_3_of_8.npz"));
  EXPECT_EQ(raised.verdict.outcome, Verdict::Outcome::kIncomplete);
}

TEST_F(Runs, AStopKeepsWhatWasMeasured) {
  generate(8);
  RunRequest asked =
      request({"train.computation_time=0.05", "train.epochs=1000", "reader.batch_size=1"});
  std::stop_source stop;
  struct StopAfterFirstEpoch : Observer {
    std::stop_source& source;
    explicit StopAfterFirstEpoch(std::stop_source& s) : source(s) {}
    void on_epoch(const RunResult&, const EpochResult&) override { source.request_stop(); }
  } observer(stop);
  const Result<RunResult> result = run(asked, observer, stop.get_token());
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->is_interrupted);
  EXPECT_EQ(result->epochs.size(), 1u);
  EXPECT_TRUE(result->au.mean.has_value());
  EXPECT_EQ(result->verdict.outcome, Verdict::Outcome::kIncomplete);
}

TEST_F(Runs, SamplesKeptInMemoryAreReadInTheFirstEpochOnly) {
  generate(8);
  for (const std::string payload : {"decode", "bytes"}) {
    RunRequest asked = request({"train.epochs=3"}, 2);
    asked.resolved.workload.reader.in_memory = true;
    asked.options.payload = payload;
    const RunResult result = run_ok(asked);
    ASSERT_EQ(result.epochs.size(), 3u);
    EXPECT_GT(result.epochs[0].file_bytes, 8u * 2000);
    for (const size_t later : {1, 2}) {
      EXPECT_EQ(result.epochs[later].file_bytes, 0u);
      EXPECT_EQ(result.epochs[later].payload_bytes, result.epochs[0].payload_bytes);
      EXPECT_EQ(result.epochs[later].samples, 8u);
    }
    EXPECT_THAT(result.warnings, testing::Contains(HasSubstr("kept in memory")));
  }
}

TEST_F(Runs, TraceHoldsComputeAndWaits) {
  generate(8);
  trace::MemoryFile file;
  trace::Recorder recorder(file.writer(), {.host = "alpha", .process = "test"});
  RunRequest asked = request({"reader.batch_size=1"});
  asked.recorder = &recorder;
  const RunResult result = run_ok(asked);
  ASSERT_TRUE(recorder.finish().ok());
  EXPECT_EQ(recorder.dropped(), 0u);
  const trace::Recording recording = file.load();
  std::map<trace::Category, uint64_t> count, bytes;
  const auto key = recording.find_key(trace::key::kBytes, trace::ArgumentType::kInteger);
  ASSERT_TRUE(key.has_value());
  for (size_t row = 0; row < recording.size(); ++row) {
    const trace::TrackId track = recording.track(row);
    const auto column = recording.column(*key, track);
    ++count[recording.name(row).category];
    if (!column.empty()) {
      bytes[recording.name(row).category] +=
          static_cast<uint64_t>(column[row - recording.rows(track).first]);
    }
  }
  const uint64_t steps = 8 * result.epochs.size();
  EXPECT_EQ(count[trace::Category::kStep], steps);
  EXPECT_EQ(count[trace::Category::kCompute], steps);
  EXPECT_GE(count[trace::Category::kPrepare], 1u);  // most are checked while they are read
  uint64_t read = 0;
  for (const auto& epoch : result.epochs) read += epoch.file_bytes;
  EXPECT_EQ(bytes[trace::Category::kRead], read);
}

TEST_F(Runs, SearchFindsTheCountThatStillPasses) {
  generate(16);
  RunRequest asked =
      request({"dataset.num_files_train=16", "reader.batch_size=1", "train.computation_time=0.02",
               "reader.read_threads=1", "metric.au=0.6"});
  // 40 reads a second in all: one accelerator of 50 samples/s runs at 80 %, two at 40 %.
  asked.options.storage = "slow:iops=40,over=local";
  Observer observer;
  std::vector<int> tried;
  const auto found = find_max_accelerators(
      asked, 4, observer,
      [&](const Attempt& a, const RunResult&) { tried.push_back(a.accelerators); }, {});
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->accelerators, 1);
  EXPECT_EQ(found->stopped_by, "gate");
  EXPECT_EQ(tried, (std::vector<int>{1, 2}));
}

TEST_F(Runs, InspectDescribesAndChecksAFolderAndAFile) {
  generate(8);
  std::ofstream(folder_ + "/train/notes.txt") << "not data";
  std::ofstream(folder_ + "/train/img_5_of_8.npz", std::ios::trunc) << "PK junk";
  InspectionOptions options;
  options.check_all = true;
  const auto inspection = inspect(folder_, options, [](uint64_t, uint64_t) {}, {});
  ASSERT_TRUE(inspection.ok()) << inspection.error().message;
  EXPECT_EQ(inspection->format, "npz");
  EXPECT_EQ(inspection->files, 7u);
  EXPECT_EQ(inspection->bad_count, 1u);
  EXPECT_EQ(inspection->problem_count, 2u);  // the stray file and the damaged one
  EXPECT_THAT(inspection->bad, testing::ElementsAre(HasSubstr("img_5_of_8.npz")));
  const auto one = inspect(folder_ + "/train/img_0_of_8.npz", {}, [](uint64_t, uint64_t) {}, {});
  ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(one->files, 1u);
  EXPECT_THAT(one->first_sample, HasSubstr("uint8"));
}

TEST_F(Runs, InspectCountsABadRecordAmongTheProblems) {
  generate(8);
  std::fstream file(folder_ + "/train/img_5_of_8.npz",
                    std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(1000);
  file << "damage";
  file.close();
  std::ofstream(folder_ + "/train/empty.npz").close();
  InspectionOptions options;
  options.check_all = true;
  const auto found = inspect(folder_, options, [](uint64_t, uint64_t) {}, {});
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->bad_count, 2u);
  EXPECT_EQ(found->problem_count, 2u);
  EXPECT_THAT(found->bad, testing::UnorderedElementsAre(HasSubstr("empty.npz: empty file"),
                                                        HasSubstr("img_5_of_8.npz")));
}

// --- arithmetic ---

TEST(Metrics, DlioBlockFollowsItsFormula) {
  Block block;
  block.start = 0;
  block.end = 10;
  block.compute = {1, 1, 1, 1};
  block.proc = {3, 2, 2, 2};
  const DlioBlock figures = dlio_block(block, 1, 0, 4, 5);
  EXPECT_DOUBLE_EQ(*figures.au.value, 3.0 / (10 - 3));
  EXPECT_DOUBLE_EQ(*figures.samples_per_second.value, (4 - 1) / 7.0 * 5);
}

// DLIO's 2.0 reports 0 samples/s for 2 steps and a negative rate for 1.
TEST(Metrics, DlioThroughputCountsTheStepsThatAreIncluded) {
  Block block;
  block.end = 4;
  block.compute = {1, 1};
  block.proc = {2, 2};
  EXPECT_DOUBLE_EQ(*dlio_block(block, 1, 0, 2, 8).samples_per_second.value, 1 / 2.0 * 8);
  EXPECT_DOUBLE_EQ(*dlio_block(block, 0, 0, 2, 8).samples_per_second.value, 2 / 4.0 * 8);
  EXPECT_FALSE(dlio_block(block, 2, 0, 2, 8).samples_per_second.value.has_value());
}

// Short steps, so that late wake-ups weigh: counted twice, they made more than 100 %.
TEST_F(Runs, NoDefinitionOfUtilisationPassesOne) {
  generate(8);
  const RunResult result = run_ok(request(
      {"train.computation_time=0.0005", "reader.batch_size=1", "train.epochs=3", "metric.au=0.01"},
      2));
  for (const EpochResult& epoch : result.epochs) {
    ASSERT_TRUE(epoch.dlio_au.value.has_value()) << epoch.dlio_au.reason;
    EXPECT_LE(*epoch.dlio_au.value, 1);
    EXPECT_LE(*epoch.au.value, 1);
    for (const RankEpoch& rank : epoch.ranks)
      for (const Block& block : rank.blocks)
        for (size_t i = 0; i < block.compute.size(); ++i) {
          EXPECT_GE(block.compute[i], 0.0005 - 1e-9);
          EXPECT_NEAR(block.load[i] + block.compute[i], block.proc[i], 1e-6);
        }
  }
}

TEST_F(Runs, WithoutComputeTimeNoDefinitionGivesAUtilisation) {
  generate(8);
  const RunResult result = run_ok(request({"train.computation_time=0", "reader.batch_size=1"}));
  EXPECT_FALSE(result.epochs[0].au.value.has_value());
  EXPECT_FALSE(result.epochs[0].dlio_au.value.has_value());
  EXPECT_FALSE(result.dlio_au.mean.has_value());
}

TEST(Metrics, IncludedStepsNeverGoNegative) {
  EXPECT_EQ(included_steps(1, 1, 0).count(), 0u);
  EXPECT_EQ(included_steps(3, 1, 1).count(), 1u);
  EXPECT_EQ(included_steps(3, 2, 5).count(), 0u);
}

TEST(Metrics, SpreadNeedsTwoValuesForADeviation) {
  EXPECT_FALSE(spread_of({}, "none").mean.has_value());
  const std::vector<double> one{2};
  EXPECT_FALSE(spread_of(one, "").stdev.has_value());
  const std::vector<double> two{1, 3};
  EXPECT_DOUBLE_EQ(*spread_of(two, "").stdev, std::sqrt(2.0));
}

// --- Keys of the workload that the runner itself honours ---

TEST_F(Runs, ReadNothingWithTheSyntheticLoader) {
  RunRequest asked = request({"reader.data_loader=synthetic", "workflow.evaluation=True",
                              "dataset.num_files_eval=4", "dataset.num_samples_per_file=3"});
  asked.options.storage = synthetic_store(asked.resolved.workload);
  const RunResult result = run_ok(asked);
  EXPECT_EQ(result.error, "");
  ASSERT_EQ(result.epochs.size(), 2u);
  EXPECT_EQ(result.epochs[0].samples, 24u);
  EXPECT_EQ(result.epochs[0].file_bytes, 0u);
  EXPECT_EQ(result.dataset.bytes, 0u);
  EXPECT_FALSE(result.cpu_seconds_per_gb.value.has_value());
  EXPECT_EQ(result.epochs[1].samples, 12u);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(Runs, ReadNothingOfSyntheticFiles) {
  generate_format("synthetic", 8, 1, 2000);
  const RunResult result = run_ok(request({"dataset.format=synthetic", "reader.batch_size=1"}));
  EXPECT_EQ(result.epochs[0].samples, 8u);
  EXPECT_EQ(result.epochs[0].file_bytes, 0u);
}

TEST_F(Runs, ReadRawFilesThatTheSameKeysMade) {
  generate_format("raw", 8, 3, 4000);
  const RunResult result =
      run_ok(request({"dataset.format=raw", "dataset.record_length_bytes=4000",
                      "reader.batch_size=1", "dataset.num_samples_per_file=3"}));
  EXPECT_EQ(result.epochs[0].samples, 24u);
  EXPECT_EQ(result.epochs[0].file_bytes, 24u * 4000);
}

TEST_F(Runs, WarnWhereFilesHoldAnotherNumberOfSamplesThanAsked) {
  generate_format("tfrecord", 8, 3, 100);
  const auto with = [](const char* samples) {
    return std::vector<std::string>{"dataset.format=tfrecord", "reader.batch_size=1",
                                    std::string("dataset.num_samples_per_file=") + samples};
  };
  EXPECT_THAT(run_ok(request(with("5"))).warnings,
              testing::Contains(HasSubstr("num_samples_per_file is 5, but 8 of 8 files have other "
                                          "numbers of samples: train/img_0_of_8.tfrecord holds "
                                          "3")));
  EXPECT_THAT(run_ok(request(with("3"))).warnings,
              testing::Not(testing::Contains(HasSubstr("num_samples_per_file"))));
}

TEST_F(Runs, SaveOnesWhenTensorsShallNotBeRandom) {
  generate(8);
  for (const bool is_random : {false, true}) {
    const std::string saves = folder_ + (is_random ? "/random" : "/ones");
    const RunResult result = run_ok(request(
        {"workflow.checkpoint=True", "checkpoint.checkpoint_folder=" + saves,
         "model.model_size_bytes=5000", fmt::format("checkpoint.randomize_tensor={}", is_random)}));
    ASSERT_EQ(result.checkpoints.size(), 1u);
    std::ifstream file(saves + "/" + result.checkpoints[0].path + "/model_states-0.safetensors",
                       std::ios::binary);
    file.seekg(4096);  // behind the header
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    ASSERT_EQ(bytes.size(), 5000u);
    EXPECT_EQ(bytes == std::string(5000, '\1'), !is_random);
  }
}

TEST_F(Runs, ReadTheParquetColumnsThatAreNamedAndRefuseUnknownOnes) {
  dataset::GeneratorOptions options;
  options.files_train = 8;
  options.samples_per_file = 20;
  for (const char* name : {"a", "b", "c", "d"})
    options.common.table.push_back({name, formats::ElementType::kF64, 1});
  const auto store = storage::open_store("local", folder_).take();
  options.format = formats::find_format("parquet");
  const auto made = dataset::generate(*store, options, [](const auto&) {}, {});
  if (!made.ok() && made.error().code == ErrorCode::kUnsupported)
    GTEST_SKIP() << made.error().message;
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto with = [&](const std::string& columns) {
    return request({"dataset.format=parquet", "dataset.num_samples_per_file=20",
                    "reader.batch_size=4", "dataset.parquet.columns=" + columns});
  };
  const uint64_t all = run_ok(with("[]")).epochs[0].payload_bytes;
  EXPECT_EQ(all, 160u * 4 * 8);
  EXPECT_EQ(run_ok(with("[{name: a, dtype: float64, size: 1}]")).epochs[0].payload_bytes, all / 4);
  EXPECT_THAT(run_error(with("[{name: zz}]")).message, HasSubstr("no column named 'zz'"));
}

TEST(FormatOptions, NameTheColumnsThatAreRead) {
  const auto columns = [](const std::string& text) {
    const auto resolved =
        workload::resolve("demo", {"dataset.format=parquet", "dataset.parquet.columns=" + text});
    EXPECT_TRUE(resolved.ok()) << resolved.error().message;
    return format_options(resolved->workload).columns;
  };
  EXPECT_THAT(columns("[{name: a}, {name: b, read: false}, {name: c}]"),
              testing::ElementsAre("a", "c"));
  EXPECT_THAT(columns("[{name: a}, {name: b}]"), testing::ElementsAre("a", "b"));
  EXPECT_EQ(format_options(workload::resolve("dlrm_b200", {})->workload).columns.size(), 40u);
}

}  // namespace
}  // namespace forebay::emulate
