// Goal: stalls of runs whose answer is known by construction: the latency of a slow store, the
// preprocess time of a sample. Method: small files, one read and one decode at a time, so that
// nothing overlaps but what the pipeline overlaps by itself.
#include "emulate/differential_runs.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/test_folder.h"
#include "cluster/channel_for_test.h"
#include "dataset/generator.h"
#include "sys/page_cache.h"

namespace forebay::emulate {
namespace {

using testing::Contains;
using testing::HasSubstr;
using trace::RunKind;
using trace::StallKind;

class DifferentialRuns : public testing::Test {
 protected:
  void SetUp() override {
    dataset::GeneratorOptions options;
    options.files_train = 80;
    options.record_bytes = 2000;
    options.format = formats::find_format("npz");
    options.sync = false;
    auto store = std::move(storage::open_store("local", folder_)).value();
    const auto made = dataset::generate(*store, options, [](const auto&) {}, {});
    ASSERT_TRUE(made.ok()) << made.error().message;
  }

  RunRequest request(std::vector<std::string> overrides, const std::string& storage = "local") {
    overrides.insert(
        overrides.begin(),
        {"dataset.num_files_train=80", "dataset.num_files_eval=0", "workflow.evaluation=False",
         "dataset.num_subfolders_train=0", "reader.batch_size=2", "reader.read_threads=1",
         "reader.computation_threads=1", "train.computation_time=0.004"});
    RunRequest request;
    auto resolved = workload::resolve("default", overrides);
    EXPECT_TRUE(resolved.ok()) << resolved.error().message;
    request.resolved = std::move(resolved).value();
    request.options.data = folder_;
    request.options.storage = storage;
    return request;
  }

  StallsFound measure(const RunRequest& asked, int repeats = 3) {
    DifferentialOptions options;
    options.repeats = repeats;
    options.steps_max = 10;
    auto found = measure_stalls(asked, options, [](const std::string&) {}, {});
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found.ok() ? std::move(found).value() : StallsFound{};
  }

  const base::TestFolder own_{"stalls"};
  const std::string folder_ = own_ / "data";
};

// Of the fastest repeat, which a busy machine disturbs least; in ms a step.
double fastest(const StallsFound& found, RunKind kind) {
  const std::vector<double>& all = found.times[kind].seconds;
  return all.empty() ? -1e9 : 1e3 * *std::min_element(all.begin(), all.end());
}

TEST_F(DifferentialRuns, LatencyOfTheStoreIsTheFetchStall) {
  // A step takes 2 reads of 15 ms one after the other, or 4 ms of computing in the meantime: the
  // step lasts 30 ms, 26 of them are waited for bytes.
  const StallsFound found = measure(request({}, "slow:latency=15ms"));
  EXPECT_NEAR(fastest(found, RunKind::kOne), 4, 1.5);
  EXPECT_NEAR(fastest(found, RunKind::kCold) - fastest(found, RunKind::kWarm), 26, 5);
  EXPECT_LT(fastest(found, RunKind::kWarm) - fastest(found, RunKind::kAll), 5);
  EXPECT_GT(*found.stalls[StallKind::kFetch].stall.value,
            *found.stalls[StallKind::kPrep].stall.value);
  EXPECT_EQ(found.pace.slowest, "fetch");
  EXPECT_LT(*found.pace.error_share, 0.5);
  // Memory must give 500 samples a second where the store gives 67.
  ASSERT_TRUE(found.cache.share.value);
  EXPECT_GT(*found.cache.share.value, 0.75);
  EXPECT_TRUE(found.cache.is_enough);
}

TEST_F(DifferentialRuns, PreprocessTimeIsThePrepStall) {
  // A step needs 2 samples of 12 ms on one decode thread: 24 ms, 4 of them while it computes.
  const StallsFound found = measure(request({"reader.preprocess_time=0.012"}));
  EXPECT_NEAR(fastest(found, RunKind::kAll), 4, 1.5);
  EXPECT_NEAR(fastest(found, RunKind::kWarm) - fastest(found, RunKind::kAll), 20, 5);
  EXPECT_EQ(found.cache.needed_by, "prep");
}

TEST_F(DifferentialRuns, EveryKindOfRunIsRepeatedAndTheRestHasItsReason) {
  const StallsFound found = measure(request({}, "slow:latency=1ms"), 3);
  EXPECT_EQ(found.repeats, 3);
  EXPECT_EQ(found.steps, 10u);
  EXPECT_EQ(found.steps_per_epoch, 40u);
  EXPECT_EQ(found.steps_excluded, 2u);
  for (const RunKind kind : {RunKind::kOne, RunKind::kAll, RunKind::kCold, RunKind::kWarm}) {
    EXPECT_EQ(found.times[kind].seconds.size(), 3u);
    EXPECT_TRUE(found.stalls[kind].interval);
  }
  EXPECT_FALSE(found.stalls[StallKind::kNetwork].stall.value);
  EXPECT_THAT(found.stalls[StallKind::kNetwork].stall.reason, HasSubstr("mpirun"));
  EXPECT_THAT(found.notes, Contains(HasSubstr("each run takes 10 of the 40 steps")));
  EXPECT_THAT(found.notes, Contains(HasSubstr("T4 reads the same files through local")));
}

TEST_F(DifferentialRuns, ColdIsColdOnADeviceAndNamedImpossibleInMemory) {
  const StallsFound found = measure(request({}), 1);
  if (sys::is_memory_file_system(folder_)) {
    EXPECT_FALSE(found.times[RunKind::kCold].is_measured());
    EXPECT_THAT(found.stalls[StallKind::kFetch].stall.reason, HasSubstr("no cold state"));
    EXPECT_FALSE(found.cache.share.value);
  } else {
    ASSERT_TRUE(found.stalls[StallKind::kFetch].stall.value);
    EXPECT_LT(found.cold_cached_share.value.value_or(0), 0.5);
  }
  EXPECT_GT(found.warm_cached_share.value.value_or(1), 0.95);
}

TEST_F(DifferentialRuns, AcceleratorsThatComputeUnevenlyStallAtTheBarrier) {
  // Uniform in 0..8 ms: alone a step takes 4 ms, the slowest of three 6 ms.
  RunRequest asked = request({"train.computation_time={type: uniform, min: 0, max: 0.008}"});
  asked.options.accelerators = 3;
  const StallsFound found = measure(asked);
  EXPECT_EQ(found.accelerators, 3);
  EXPECT_NEAR(fastest(found, RunKind::kAll) - fastest(found, RunKind::kOne), 2, 1.5);
}

TEST_F(DifferentialRuns, AreRefusedWhereThereIsNothingToCompare) {
  const auto refused = [&](const RunRequest& asked) {
    const auto found = measure_stalls(asked, {}, [](const std::string&) {}, {});
    return found.ok() ? std::string() : found.error().message;
  };
  EXPECT_THAT(refused(request({"reader.data_loader=synthetic"})), HasSubstr("reads none"));
  EXPECT_THAT(refused(request({}, "null:files=8")), HasSubstr("no data of its own"));
  EXPECT_THAT(refused(request({"reader.batch_size=80"})), HasSubstr("has 1 step,"));
}

TEST_F(DifferentialRuns, AStopKeepsWholeRepeats) {
  std::stop_source stop;
  DifferentialOptions options;
  options.repeats = 5;
  options.steps_max = 10;
  const auto on_run = [&](const std::string& text) {
    if (text.find("repeat 2 of 5: T4") != std::string::npos) stop.request_stop();
  };
  auto found = measure_stalls(request({}, "slow:latency=1ms"), options, on_run, stop.get_token());
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(found->is_interrupted);
  EXPECT_EQ(found->repeats, 1);
  EXPECT_EQ(found->times[RunKind::kOne].seconds.size(), 1u);
  EXPECT_EQ(found->times[RunKind::kWarm].seconds.size(), 1u);
}

TEST_F(DifferentialRuns, OverTwoHostsTheNetworkStallIsMeasuredToo) {
  for (const bool same_host : {false, true}) {
    StallsFound first;
    const std::vector<cluster::TestProcess> two{{"host0", 0}, {same_host ? "host0" : "host1", 0}};
    cluster::run_processes(two, [&](cluster::World& world, base::Clock&) {
      RunRequest asked = request({});
      asked.world = &world;
      asked.options.accelerators = 2;
      DifferentialOptions options;
      options.repeats = 2;
      options.steps_max = 8;
      auto found = measure_stalls(asked, options, [](const std::string&) {}, {});
      ASSERT_TRUE(found.ok()) << found.error().message;
      if (world.rank() == 0) first = std::move(found).value();
      EXPECT_TRUE(world.close(5));
    });
    EXPECT_EQ(first.accelerators, 4);
    EXPECT_EQ(first.hosts, same_host ? 1 : 2);
    EXPECT_EQ(first.times[RunKind::kOne].seconds.size(), 2u);
    EXPECT_EQ(first.times[RunKind::kAll].seconds.size(), 2u);
    EXPECT_EQ(first.times[RunKind::kHosts].seconds.size(), same_host ? 0u : 2u);
    EXPECT_EQ(first.stalls[StallKind::kNetwork].stall.value.has_value(), !same_host);
    EXPECT_EQ(first.stalls[StallKind::kPrep].baseline, same_host ? RunKind::kAll : RunKind::kHosts);
  }
}

}  // namespace
}  // namespace forebay::emulate
