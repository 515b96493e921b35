// One run by several processes, which are threads here: sums, numbering, agreement, failures.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <numeric>
#include <thread>

#include "base/test_folder.h"
#include "cluster/channel_for_test.h"
#include "dataset/generator.h"
#include "emulate/agreement.h"
#include "emulate/epoch_part.h"
#include "emulate/runner.h"

namespace forebay::emulate {
namespace {

using testing::HasSubstr;

std::vector<cluster::TestProcess> processes(int count) {
  std::vector<cluster::TestProcess> made;
  for (int rank = 0; rank < count; ++rank) made.push_back({fmt::format("host{}", rank / 2), 0});
  return made;
}

class Processes : public testing::Test {
 protected:
  void generate(const std::string& folder, uint64_t files) {
    dataset::GeneratorOptions options;
    options.format = formats::find_format("npz");
    options.files_train = files;
    options.record_bytes = 500;
    options.sync = false;
    auto store = std::move(storage::open_store("local", folder)).value();
    const auto made = dataset::generate(*store, options, [](const auto&) {}, {});
    ASSERT_TRUE(made.ok()) << made.error().message;
  }

  RunRequest request(cluster::World& world, int accelerators,
                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> overrides{"dataset.num_files_train=60",
                                       "dataset.num_files_eval=0",
                                       "workflow.evaluation=False",
                                       "dataset.num_subfolders_train=0",
                                       "dataset.num_subfolders_eval=0",
                                       "train.computation_time=0.001",
                                       "train.epochs=2",
                                       "reader.batch_size=2"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    RunRequest made;
    auto resolved = workload::resolve("default", overrides);
    EXPECT_TRUE(resolved.ok()) << resolved.error().message;
    made.resolved = std::move(resolved).value();
    made.options.data = folder_;
    made.options.accelerators = accelerators;
    made.version = "test";
    made.world = &world;
    return made;
  }

  const base::TestFolder own_{"processes"};
  const std::string folder_ = own_ / "data";
};

TEST_F(Processes, FiguresAreThoseOfAllAcceleratorsForAnyNumberOfProcesses) {
  generate(folder_, 60);
  for (const std::vector<int>& accelerators : std::vector<std::vector<int>>{
           {1}, {3}, {1, 1}, {2, 1}, {1, 3, 2}, {1, 2, 1, 1}, {2, 1, 1, 1, 1}}) {
    const int total = std::accumulate(accelerators.begin(), accelerators.end(), 0);
    const auto steps = static_cast<uint64_t>(60 / (2 * total));
    std::vector<RunResult> results(accelerators.size());
    cluster::run_processes(processes(static_cast<int>(accelerators.size())),
                           [&](cluster::World& world, base::Clock&) {
                             const auto rank = static_cast<size_t>(world.rank());
                             Observer observer;
                             auto result = run(request(world, accelerators[rank]), observer, {});
                             ASSERT_TRUE(result.ok()) << result.error().message;
                             results[rank] = std::move(result).value();
                             EXPECT_TRUE(world.close(5));
                           });
    const RunResult& first = results[0];
    ASSERT_EQ(first.epochs.size(), 2u);
    EXPECT_EQ(first.options.accelerators, total);
    EXPECT_EQ(first.steps_per_epoch, steps);
    for (const EpochResult& epoch : first.epochs) {
      EXPECT_EQ(epoch.steps, steps);
      EXPECT_EQ(epoch.samples, steps * 2 * static_cast<uint64_t>(total));
      EXPECT_EQ(epoch.read_ns.count(), epoch.samples);
      ASSERT_EQ(epoch.ranks.size(), static_cast<size_t>(total));
      for (const RankEpoch& rank : epoch.ranks) {
        ASSERT_EQ(rank.blocks.size(), 1u);
        EXPECT_EQ(rank.blocks[0].load.size(), steps);
        EXPECT_EQ(rank.included_samples, (steps - 1) * 2);
      }
      uint64_t bytes = 0;
      for (const HostEpoch& host : epoch.hosts) bytes += host.file_bytes;
      EXPECT_EQ(bytes, epoch.file_bytes);
      EXPECT_EQ(epoch.hosts.size(), (accelerators.size() + 1) / 2);
    }
    // Everybody comes to the same.
    for (const RunResult& result : results) {
      EXPECT_EQ(result.au.mean, first.au.mean);
      EXPECT_EQ(result.verdict.outcome, first.verdict.outcome);
      EXPECT_EQ(result.verdict.reason, first.verdict.reason);
      EXPECT_EQ(result.verdict.limited_by, first.verdict.limited_by);
      EXPECT_EQ(result.hosts.size(), first.hosts.size());
    }
  }
}

TEST_F(Processes, AnErrorOfOneEndsAllAndIsNamed) {
  generate(folder_, 60);
  const std::string victim = folder_ + "/train/img_31_of_60.npz";
  std::fstream file(victim, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(300);
  file.put('\xff').put('\x5a');
  file.close();
  std::atomic<int> named = 0;
  cluster::run_processes(processes(3), [&](cluster::World& world, base::Clock&) {
    Observer observer;
    const auto result = run(request(world, 1, {"train.epochs=500"}), observer, {});
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_THAT(result->error, testing::StartsWith("rank "));
    EXPECT_THAT(result->error, HasSubstr("img_31_of_60.npz"));
    EXPECT_EQ(result->verdict.outcome, Verdict::Outcome::kIncomplete);
    if (world.rank() == 0) {
      EXPECT_EQ(result->epochs.back().ranks.size(), 3u);  // also what the others did of it
    }
    ++named;
    EXPECT_TRUE(world.close(5));
  });
  EXPECT_EQ(named, 3);
}

TEST_F(Processes, AStopOfOneInterruptsAll) {
  generate(folder_, 60);
  std::atomic<int> interrupted = 0;
  // The user of rank 1 loses patience after its first epoch.
  struct Impatient : Observer {
    void on_epoch(const RunResult& /*so_far*/, const EpochResult& /*epoch*/) override {
      if (stops) stop.request_stop();
    }
    bool stops = false;
    std::stop_source stop;
  };
  cluster::run_processes(processes(3), [&](cluster::World& world, base::Clock&) {
    Impatient user;
    user.stops = world.rank() == 1;
    const auto result =
        run(request(world, 1, {"train.epochs=100000"}), user, user.stop.get_token());
    if (!result.ok()) world.fail(result.error());
    ASSERT_TRUE(result.ok()) << result.error().message;
    if (result->is_interrupted && result->error.empty()) ++interrupted;
    EXPECT_THAT(result->stopped_because, testing::StartsWith("rank 1 on host0 was asked to stop"));
    EXPECT_TRUE(world.close(5));
  });
  EXPECT_EQ(interrupted, 3);
}

// Its result only said "interrupted": a launcher that has lost a process stops the others.
TEST_F(Processes, AProcessThatGivesNoAnswerToAStopIsNamedInTheResult) {
  generate(folder_, 60);
  std::promise<void> over;
  struct User : Observer {
    void on_epoch(const RunResult& /*so_far*/, const EpochResult& /*epoch*/) override {
      if (hangs_until.valid()) hangs_until.wait();
      if (stops) stop.request_stop();
    }
    bool stops = false;
    std::future<void> hangs_until;
    std::stop_source stop;
  };
  cluster::run_processes(processes(3), [&](cluster::World& world, base::Clock&) {
    User user;
    user.stops = world.rank() == 0;
    if (world.rank() == 2) user.hangs_until = over.get_future();
    const auto result =
        run(request(world, 1, {"train.epochs=100000"}), user, user.stop.get_token());
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_TRUE(result->is_interrupted);
    if (world.rank() == 0) {
      EXPECT_EQ(result->stopped_because,
                "no answer from rank 2 on host1: killed, crashed or stuck");
      over.set_value();
    }
    world.close(5);
  });
}

// The message told of 18446744073709551615.
TEST_F(Processes, AnOptionThatOneWasNotGivenIsSaidToBeMissing) {
  generate(folder_, 60);
  for (const int given_to : {0, 1})
    cluster::run_processes(processes(2), [&](cluster::World& world, base::Clock&) {
      Observer observer;
      RunRequest asked = request(world, 1);
      if (world.rank() == given_to) asked.options.errors_max = 3;
      const auto result = run(asked, observer, {});
      ASSERT_FALSE(result.ok());
      EXPECT_THAT(result.error().message,
                  HasSubstr(given_to == 1 ? "--errors-max is 3, but not given to rank 0 on host0"
                                          : "--errors-max is not given, rank 0 on host0 has 3"));
      world.close(5);
    });
}

TEST_F(Processes, AnotherConfigurationIsRefusedEverywhereByName) {
  generate(folder_, 60);
  std::atomic<int> refused = 0;
  cluster::run_processes(processes(3), [&](cluster::World& world, base::Clock&) {
    Observer observer;
    RunRequest asked =
        request(world, 1, {fmt::format("train.epochs={}", world.rank() == 2 ? 3 : 2)});
    const auto result = run(asked, observer, {});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(result.error().message,
              "rank 2 on host1 was started differently: train.epochs is 3, rank 0 on host0 has 2");
    ++refused;
    world.close(5);
  });
  EXPECT_EQ(refused, 3);
}

TEST_F(Processes, AnotherVersionIsRefused) {
  generate(folder_, 60);
  cluster::run_processes(processes(2), [&](cluster::World& world, base::Clock&) {
    Observer observer;
    RunRequest asked = request(world, 1);
    asked.version = world.rank() == 1 ? "2.0" : "1.0";
    const auto result = run(asked, observer, {});
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.error().message, HasSubstr("the version of Forebay is 2.0"));
    world.close(5);
  });
}

TEST_F(Processes, OtherFilesAreRefusedAndTheFirstIsNamed) {
  generate(folder_, 60);
  const std::string other = own_ / "other";
  std::filesystem::copy(folder_, other, std::filesystem::copy_options::recursive);
  std::filesystem::rename(other + "/train/img_42_of_60.npz", other + "/train/img_4200.npz");
  std::atomic<int> refused = 0;
  cluster::run_processes(processes(2), [&](cluster::World& world, base::Clock&) {
    Observer observer;
    RunRequest asked = request(world, 1);
    if (world.rank() == 1) asked.options.data = other;
    const auto result = run(asked, observer, {});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(result.error().message, HasSubstr("rank 1 on host0 sees other data"));
    EXPECT_THAT(result.error().message, HasSubstr("train/img_42_of_60.npz is missing there"));
    ++refused;
    world.close(5);
  });
  EXPECT_EQ(refused, 2);
}

TEST_F(Processes, ADrawnOrderIsTheSameForAll) {
  generate(folder_, 60);
  std::atomic<uint64_t> seeds[2] = {1, 2};
  cluster::run_processes(processes(2), [&](cluster::World& world, base::Clock&) {
    Observer observer;
    const auto result = run(request(world, 1, {"reader.sample_shuffle=random"}), observer, {});
    ASSERT_TRUE(result.ok()) << result.error().message;
    seeds[world.rank()] = result->dataset.order_seed;
    world.close(5);
  });
  EXPECT_EQ(seeds[0], seeds[1]);
}

TEST_F(Processes, TheAllowanceOfBadRecordsIsOfAllTogether) {
  generate(folder_, 60);
  for (const char* number : {"10", "20", "30", "40"}) {
    std::fstream file(fmt::format("{}/train/img_{}_of_60.npz", folder_, number),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(300);
    file.put('\xff').put('\x5a');
  }
  cluster::run_processes(processes(2), [&](cluster::World& world, base::Clock&) {
    Observer observer;
    RunRequest asked = request(world, 1, {"train.epochs=1"});
    asked.options.on_error = "skip";
    asked.options.errors_max = 3;
    const auto result = run(asked, observer, {});
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_THAT(result->error, HasSubstr("bad records"));
    world.close(5);
  });
}

TEST(EpochParts, SurviveTheWayToAnotherProcess) {
  EpochPart part;
  part.rank = 3;
  part.epoch = 7;
  part.totals = {{.steps = 2, .samples = 8}, {.steps = 3}};
  part.ranks.resize(2);
  part.ranks[1].split.fetch = 0.5;
  Block& block = part.ranks[1].blocks.emplace_back();
  block.load = {0.1, 0.2};
  block.splits.resize(2);
  part.network = {{.received = 5, .sent = 6}};
  part.read_ns.record(99);
  part.meminfo = {{"MemFree", "1 kB"}, {"MemTotal", ""}};
  auto back = unpack_epoch_part(pack(part));
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_TRUE(unpack_blocks(pack_blocks(part), *back).ok());
  EXPECT_EQ(back->rank, 3);
  EXPECT_EQ(back->meminfo, part.meminfo);
  EXPECT_EQ(back->totals[0].samples, 8u);
  EXPECT_EQ(back->ranks[1].split.fetch, 0.5);
  EXPECT_EQ(back->ranks[1].blocks[0].load, (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(back->ranks[1].blocks[0].splits.size(), 2u);
  EXPECT_FALSE(back->device_bytes.has_value());
  EXPECT_EQ(back->network->sent, 6u);
  EXPECT_EQ(back->read_ns.max(), 99u);
}

TEST(EpochParts, CutShortOrDamagedAreRefused) {
  EpochPart part;
  part.totals.resize(2);
  part.ranks.resize(2);
  part.read_ns.record(99);
  part.meminfo = {{"MemFree", "1 kB"}};
  const std::string whole = pack(part);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(unpack_epoch_part(std::string_view(whole).substr(0, length)).ok()) << length;
  EXPECT_FALSE(unpack_epoch_part(whole + "x").ok());
  RunPart of_run;
  of_run.cpuinfo = {{"model name", "a"}};
  of_run.meminfo = part.meminfo;
  const std::string run_part = pack(of_run);
  EXPECT_EQ(unpack_run_part(run_part)->cpuinfo, of_run.cpuinfo);
  for (size_t length = 0; length < run_part.size(); ++length)
    EXPECT_FALSE(unpack_run_part(std::string_view(run_part).substr(0, length)).ok()) << length;
}

TEST(RunParts, HostsAddUpAndCountTheirCpusOnce) {
  const auto part = [](int rank, const char* host, int cpus) {
    RunPart made;
    made.rank = rank;
    made.accelerators = 2;
    made.host.name = host;
    made.host.cpu_count = cpus;
    made.host.cpu_count_online = 8;
    made.cpu_seconds = 1.5;
    made.peak_resident_bytes = 100;
    made.cpuinfo = {{"model name", host}};
    made.warnings = {"same", fmt::format("only {}", rank)};
    return made;
  };
  RunResult result;
  result.warnings = {"same"};
  // On a, processes are bound to two CPUs each; on b both may use all.
  merge({part(0, "a", 2), part(1, "b", 8), part(2, "a", 2), part(3, "b", 8)}, result);
  ASSERT_EQ(result.hosts.size(), 2u);
  EXPECT_EQ(result.hosts[0].host.cpu_count, 4);
  EXPECT_EQ(result.hosts[1].host.cpu_count, 8);
  EXPECT_THAT(result.hosts[0].processes, testing::ElementsAre(0, 2));
  EXPECT_EQ(result.hosts[1].accelerators, 4);
  EXPECT_EQ(result.hosts[1].cpuinfo.at("model name"), "b");
  EXPECT_EQ(result.cpu_seconds, 6);
  EXPECT_EQ(result.peak_resident_bytes, 400u);
  EXPECT_THAT(result.warnings,
              testing::ElementsAre("same", "rank 0 on a: only 0", "rank 1 on b: only 1",
                                   "rank 2 on a: only 2", "rank 3 on b: only 3"));
}

}  // namespace
}  // namespace forebay::emulate
