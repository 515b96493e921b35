// What is saved is restored bit for bit; what is damaged is never offered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/test_folder.h"
#include "checkpoint/inventory.h"
#include "checkpoint/open_on_tiers.h"
#include "checkpoint/power_loss_for_test.h"
#include "checkpoint/state_for_test.h"
#include "checkpoint/tier.h"
#include "forebay/checkpoint.h"

namespace forebay::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Checkpointer> open(const CheckpointOptions& options) {
  auto opened = Checkpointer::open(options);
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  return opened.ok() ? std::move(opened).value() : nullptr;
}

CheckpointOptions options_of(std::vector<std::string> places) {
  CheckpointOptions options;
  for (std::string& place : places) options.tiers.push_back({std::move(place)});
  options.shard_bytes_max = 16 << 10;
  options.chunk_bytes = 4096;
  options.threads = 2;
  return options;
}

std::vector<std::string> files_below(const std::string& folder, const std::string& ending) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

void flip(const std::string& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(offset);
  file.put(byte);
}

std::vector<uint64_t> steps_in(const std::string& place) {
  const auto tier = std::move(Tier::open({place})).take();
  const Tier::Contents contents = std::move(tier->list()).take();
  std::vector<uint64_t> steps;
  for (const SaveName& save : contents.saves) steps.push_back(save.step);
  return steps;
}

class CheckpointerTest : public testing::TestWithParam<bool> {};

TEST_P(CheckpointerTest, RestoresWhatWasSavedBitForBit) {
  const base::TestFolder folder("checkpoint");
  StateForTest first(1), second(2);
  first.add_some();
  second.add_some();
  CheckpointOptions options = options_of({folder / "fast", folder / "slow"});
  options.compress = GetParam();
  {
    const auto saver = open(options);
    const auto one = saver->save(100, first.state);
    ASSERT_TRUE(one.ok()) << one.error().message;
    ASSERT_TRUE(one->wait_durable().ok());
    const auto two = saver->save(200, second.state);
    ASSERT_TRUE(two.ok());
    ASSERT_TRUE(saver->wait().ok());
    EXPECT_GE(two->times().drained, two->times().durable);
    EXPECT_GE(two->times().durable, two->times().snapshotted);
    const auto newest = saver->restore();
    ASSERT_TRUE(newest.ok()) << newest.error().message;
    EXPECT_EQ(newest->step, 200u);
    EXPECT_EQ(newest->place, folder / "fast");
    EXPECT_TRUE(is_same(*newest, second.state));
  }
  for (const std::string place : {"fast", "slow"}) {
    const auto saver = open(options_of({folder / place}));
    const auto older = saver->restore({.step = 100});
    ASSERT_TRUE(older.ok()) << older.error().message;
    EXPECT_TRUE(is_same(*older, first.state));
    EXPECT_EQ(older->metadata, first.state.metadata);
    EXPECT_EQ(saver->restore({.step = 150}).error().code, ErrorCode::kNotFound);
  }
}

INSTANTIATE_TEST_SUITE_P(Packing, CheckpointerTest, testing::Bool());

uint64_t files_with_two_names(const std::string& folder) {
  const auto files = files_below(folder, ".safetensors");
  return static_cast<uint64_t>(std::count_if(
      files.begin(), files.end(),
      [](const std::string& file) { return std::filesystem::hard_link_count(file) > 1; }));
}

TEST(Checkpointer, WhatDoesNotChangeIsSharedAndStaysWhenTheFirstIsRemoved) {
  const base::TestFolder folder("checkpoint");
  StateForTest frozen(1);
  frozen.add("base", "float32", {50, 100}, 4);
  std::vector<uint32_t> trained(1000);
  CheckpointState state = frozen.state;
  state.tensors.push_back({"adapter", "uint32", {1000}, std::as_bytes(std::span(trained))});
  CheckpointOptions options = options_of({folder / "fast", folder / "slow"});
  options.share_unchanged = true;
  options.shard_bytes_max = 1 << 20;  // both in one file until it is known what changes
  options.keep_last = options.tiers[0].keep_last = 2;
  const auto saver = open(options);
  for (uint64_t step = 1; step <= 5; ++step) {
    trained[step] = static_cast<uint32_t>(step);
    ASSERT_TRUE(saver->save(step, state).ok());
    ASSERT_TRUE(saver->wait().ok());
  }
  EXPECT_EQ(files_with_two_names(folder / "fast"), 2u) << "one file of steps 4 and 5";
  EXPECT_EQ(files_with_two_names(folder / "slow"), 2u);
  EXPECT_GT(saver->stats().bytes_shared, 4 * frozen.bytes_of("base").size() - 1)
      << "steps 4 and 5, on both tiers";
  for (const std::string place : {"fast", "slow"}) {
    for (const uint64_t step : {4, 5}) {
      trained.assign(1000, 0);
      for (uint64_t i = 1; i <= step; ++i) trained[i] = static_cast<uint32_t>(i);
      const auto restored = open(options_of({folder / place}))->restore({.step = step});
      ASSERT_TRUE(restored.ok()) << restored.error().message;
      EXPECT_TRUE(is_same(*restored, state));
    }
  }
  // The next process knows the newest checkpoint by its manifest; what is damaged is not shared.
  const auto shared = files_below(folder / "fast", ".safetensors");
  for (const std::string& file : shared) flip(file, 5000);
  const auto next = open(options);
  ASSERT_TRUE(next->save(6, state).ok() && next->wait().ok());
  const auto restored = open(options_of({folder / "fast"}))->restore();
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(restored->step, 6u);
  EXPECT_TRUE(restored->notes.empty());
  EXPECT_TRUE(is_same(*restored, state));
}

TEST(Checkpointer, NothingSavedIsNotFound) {
  const base::TestFolder folder("checkpoint");
  const auto saver = open(options_of({folder / "new"}));
  const auto none = saver->restore();
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("no checkpoint in " + folder / "new"));
}

TEST(Checkpointer, TheNewestSaveCountsNotTheHighestStep) {
  const base::TestFolder folder("checkpoint");
  StateForTest first(1), second(2);
  first.add_some();
  second.add_some();
  {
    const auto saver = open(options_of({folder / "a"}));
    ASSERT_TRUE(saver->save(300, first.state).ok());
    ASSERT_TRUE(saver->save(200, first.state).ok());
    ASSERT_TRUE(saver->wait().ok());
  }
  const auto saver = open(options_of({folder / "a"}));
  ASSERT_TRUE(saver->save(200, second.state).ok());
  ASSERT_TRUE(saver->wait().ok());
  const auto newest = saver->restore();
  ASSERT_TRUE(newest.ok());
  EXPECT_EQ(newest->step, 200u);
  EXPECT_TRUE(is_same(*newest, second.state));
}

TEST(Checkpointer, ADamagedChunkIsTakenFromAnotherTier) {
  const base::TestFolder folder("checkpoint");
  StateForTest state(1);
  state.add_some();
  const CheckpointOptions options = options_of({folder / "fast", folder / "slow"});
  const auto saver = open(options);
  ASSERT_TRUE(saver->save(1, state.state).ok());
  ASSERT_TRUE(saver->wait().ok());
  const auto files = files_below(folder / "fast", ".safetensors");
  ASSERT_GT(files.size(), 1u);
  flip(files[0], 5000);
  std::filesystem::remove(files[1]);
  const auto restored = saver->restore();
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_TRUE(is_same(*restored, state.state));
  ASSERT_FALSE(restored->notes.empty());
  EXPECT_THAT(restored->notes, testing::Contains(HasSubstr("taken from " + folder / "slow")));
}

TEST(Checkpointer, DamageEverywhereOffersTheCheckpointBeforeAndSaysSo) {
  const base::TestFolder folder("checkpoint");
  StateForTest first(1), second(2);
  first.add_some();
  second.add_some();
  const auto saver = open(options_of({folder / "a"}));
  ASSERT_TRUE(saver->save(1, first.state).ok());
  ASSERT_TRUE(saver->save(2, second.state).ok());
  ASSERT_TRUE(saver->wait().ok());
  const auto folders = files_below(folder / "a", "manifest.json");
  ASSERT_EQ(folders.size(), 2u);
  for (const std::string& file :
       files_below(std::filesystem::path(folders[1]).parent_path(), ".safetensors"))
    flip(file, 4096);
  auto restored = saver->restore();
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(restored->step, 1u);
  EXPECT_TRUE(is_same(*restored, first.state));
  EXPECT_THAT(restored->notes, ElementsAre(HasSubstr("are damaged")));
  flip(folders[0], 100);
  const auto none = saver->restore();
  EXPECT_EQ(none.error().code, ErrorCode::kCorruption);
}

TEST(Checkpointer, RetentionKeepsWhatTheRulesName) {
  const base::TestFolder folder("checkpoint");
  StateForTest state(1);
  state.add_some();
  CheckpointOptions options = options_of({folder / "fast", folder / "slow"});
  options.tiers[0].keep_last = 1;
  options.keep_last = 2;
  options.keep_every = 3;
  const auto saver = open(options);
  for (uint64_t step = 1; step <= 6; ++step) ASSERT_TRUE(saver->save(step, state.state).ok());
  ASSERT_TRUE(saver->wait().ok());
  EXPECT_THAT(steps_in(folder / "fast"), ElementsAre(6));
  EXPECT_THAT(steps_in(folder / "slow"), ElementsAre(3, 5, 6));
  std::ifstream latest(folder / "slow/latest");
  std::string name;
  latest >> name;
  EXPECT_EQ(save_from_folder(name)->step, 6u);
}

TEST(Checkpointer, ADamagedNewestIsNotTheNewestWholeOneForRetention) {
  const base::TestFolder folder("checkpoint");
  StateForTest state(1);
  state.add_some();
  const CheckpointOptions options = options_of({folder / "a"});
  for (uint64_t step = 1; step <= 3; ++step) {
    const auto saver = open(options);
    ASSERT_TRUE(saver->save(step, state.state).ok() && saver->wait().ok());
  }
  const auto manifests = files_below(folder / "a", "manifest.json");
  ASSERT_EQ(manifests.size(), 3u);
  const auto shards =
      files_below(std::filesystem::path(manifests[2]).parent_path(), ".safetensors");
  const auto tier = std::move(Tier::open({folder / "a"})).take();
  // One bit, which only reading shows; then a file that is too short.
  flip(shards[0], 4096);
  auto pruned = prune(*tier, {.rules = {.keep_last = 1}, .only_says = true}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  ASSERT_EQ(pruned->removed.size(), 1u);
  EXPECT_EQ(pruned->removed[0].step, 1u);
  EXPECT_THAT(pruned->damaged[0].what, HasSubstr("are damaged"));
  std::filesystem::resize_file(shards[0], 5000);
  CheckpointOptions keeping = options;
  keeping.keep_last = 1;
  pruned = prune(*tier, {.rules = {.keep_last = 1}}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_THAT(steps_in(folder / "a"), ElementsAre(2, 3));
  EXPECT_EQ(open(options)->restore()->step, 2u);
  const auto saver = open(keeping);
  ASSERT_TRUE(saver->save(4, state.state).ok() && saver->wait().ok());
  EXPECT_THAT(steps_in(folder / "a"), ElementsAre(4)) << "older than a whole one";
}

TEST(Checkpointer, WhatAnotherProcessReadsIsNotRemovedUntilThatEnds) {
  const base::TestFolder folder("checkpoint");
  StateForTest state(1);
  state.add_some();
  CheckpointOptions options = options_of({folder / "a"});
  {
    const auto saver = open(options);
    ASSERT_TRUE(saver->save(1, state.state).ok() && saver->wait().ok());
  }
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t reader = fork();
  if (reader == 0) {
    const auto tier = std::move(Tier::open({folder / "a"})).take();
    const auto held = tier->hold(tier->list()->saves.front());
    const bool has_told = held.ok() && write(ready[1], "x", 1) == 1;
    if (has_told) pause();  // until it is killed
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  options.keep_last = 1;
  {
    const auto saver = open(options);
    ASSERT_TRUE(saver->save(2, state.state).ok() && saver->wait().ok());
  }
  EXPECT_THAT(steps_in(folder / "a"), ElementsAre(1, 2));
  const auto tier = std::move(Tier::open({folder / "a"})).take();
  auto pruned = prune(*tier, {.rules = {.keep_last = 1}}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_EQ(pruned->in_use.size(), 1u);
  kill(reader, SIGKILL);
  waitpid(reader, nullptr, 0);
  pruned = prune(*tier, {.rules = {.keep_last = 1}}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_THAT(steps_in(folder / "a"), ElementsAre(2)) << "its lock went with it";
  close(ready[0]);
  close(ready[1]);
}

// A store without locks: what is read may go meanwhile, and then there is something newer.
TEST(Checkpointer, ACheckpointThatIsRemovedWhileItIsReadGivesWayToANewerOne) {
  StateForTest state(1);
  state.add_some();
  DiskForTest disk;
  const auto open_disk = [&] {
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(Tier::on(std::make_unique<DiskStoreForTest>(disk), "disk"));
    CheckpointOptions options = options_of({"disk"});
    options.threads = 1;
    options.keep_last = 1;
    return std::move(open_on_tiers(std::move(tiers), options)).take();
  };
  const auto writer = open_disk(), reader = open_disk();
  ASSERT_TRUE(writer->save(1, state.state).ok() && writer->wait().ok());
  disk.on_read_of("rank-",
                  [&] { ASSERT_TRUE(writer->save(2, state.state).ok() && writer->wait().ok()); });
  const auto restored = reader->restore();
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(restored->step, 2u);
}

TEST(Checkpointer, FourRanksSaveAndThreeRestore) {
  const base::TestFolder folder("checkpoint");
  constexpr uint64_t kRows = 24, kColumns = 10;
  std::vector<uint32_t> whole(kRows * kColumns);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<uint32_t>(i * 2654435761u);
  const auto run = [&](int size, const std::function<void(Checkpointer&, int)>& body) {
    RanksForTest ranks(size);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        CheckpointOptions options = options_of({folder / "fast", folder / "slow"});
        options.group = ranks.rank(rank);
        const auto saver = open(options);
        if (saver) body(*saver, rank);
      });
    }
  };
  run(4, [&](Checkpointer& saver, int rank) {
    const uint64_t rows = kRows / 4, first = rows * static_cast<uint64_t>(rank);
    CheckpointState state;
    state.tensors.push_back(
        {"w",
         "uint32",
         {rows, kColumns},
         std::as_bytes(std::span(whole).subspan(first * kColumns, rows * kColumns)),
         {kRows, kColumns},
         {first, 0}});
    state.tensors.push_back({"same", "uint32", {4}, std::as_bytes(std::span(whole).first(4))});
    ASSERT_TRUE(saver.save(7, state).ok());
    const Status done = saver.wait();
    EXPECT_TRUE(done.ok()) << done.error().message;
  });
  EXPECT_EQ(files_below(folder / "slow", ".safetensors").size(), 5u)
      << "what all have is there once";
  EXPECT_TRUE(files_below(folder / "slow", ".done").empty());
  run(3, [&](Checkpointer& saver, int rank) {
    const uint64_t rows = kRows / 3, first = rows * static_cast<uint64_t>(rank);
    const auto restored = saver.restore({.boxes = {{"w", {{first, 2}, {rows, 5}}}}});
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    ASSERT_EQ(restored->tensors.size(), 2u);
    const auto* values = reinterpret_cast<const uint32_t*>(restored->tensors[1].bytes.data());
    EXPECT_EQ(restored->tensors[1].shape, (std::vector<uint64_t>{rows, 5}));
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < 5; ++c)
        EXPECT_EQ(values[r * 5 + c], whole[(first + r) * kColumns + 2 + c]);
  });
}

// What one tier has whole goes on to the next, though ranks copy at their own pace.
TEST(Checkpointer, RanksCopyOnOverThreeTiers) {
  const base::TestFolder folder("checkpoint");
  RanksForTest ranks(3);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      CheckpointOptions options = options_of({folder / "a", folder / "b", folder / "c"});
      options.group = ranks.rank(rank);
      const auto saver = open(options);
      StateForTest state(1);
      state.add_some();
      for (uint64_t step = 1; step <= 3; ++step) EXPECT_TRUE(saver->save(step, state.state).ok());
      const Status done = saver->wait();
      EXPECT_TRUE(done.ok()) << done.error().message;
    });
  }
  threads.clear();
  EXPECT_THAT(steps_in(folder / "c"), ElementsAre(1u, 2u, 3u));
}

TEST(Checkpointer, SharingIsRefusedForTiersWithoutLinks) {
  DiskForTest disk;
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(Tier::on(std::make_unique<DiskStoreForTest>(disk), "disk"));
  CheckpointOptions options = options_of({"disk"});
  options.share_unchanged = true;
  const auto refused = open_on_tiers(std::move(tiers), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("share_unchanged: disk has no links"));
}

// Ranks of one group that save to `place`: first what `spoil(rank, step, state)` makes of step 7,
// which fails on all with `problem`, then step 9, which does not.
template <class Spoil>
void expect_refused_on_all(const std::string& place, int count, const std::string& problem,
                           const Spoil& spoil) {
  RanksForTest ranks(count);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      CheckpointOptions options = options_of({place});
      options.group = ranks.rank(rank);
      const auto saver = open(options);
      StateForTest state(1);
      state.add_some();
      CheckpointState spoilt = state.state;
      uint64_t step = 7;
      spoil(rank, step, spoilt);
      const auto saved = saver->save(step, spoilt);
      const Status done = saved.ok() ? saved->wait_durable() : Status(saved.error());
      EXPECT_THAT(done.ok() ? "" : done.error().message, HasSubstr(problem));
      const auto again = saver->save(9, state.state);
      ASSERT_TRUE(again.ok()) << again.error().message;
      EXPECT_TRUE(saver->wait().ok());
    });
  }
  threads.clear();
  EXPECT_THAT(steps_in(place), ElementsAre(9u));
}

TEST(Checkpointer, ARankThatCannotSaveStopsTheSaveOnAll) {
  const base::TestFolder folder("checkpoint");
  expect_refused_on_all(folder / "a", 2, "complex256",
                        [](int rank, uint64_t& /*step*/, CheckpointState& state) {
                          if (rank == 1) state.tensors[0].element_type = "complex256";
                        });
}

TEST(Checkpointer, RanksThatSaveDifferentStepsAreRefusedOnAll) {
  const base::TestFolder folder("checkpoint");
  expect_refused_on_all(
      folder / "a", 3, "saves another step",
      [](int rank, uint64_t& step, CheckpointState& /*state*/) { step += rank == 2 ? 1 : 0; });
}

// Two hosts, each with a folder of that name, and nothing behind it.
TEST(Checkpointer, ATierThatRanksDoNotShareIsRefusedOnAll) {
  const base::TestFolder folder("checkpoint");
  RanksForTest ranks(2);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        CheckpointOptions options = options_of({folder / std::to_string(rank)});
        options.group = ranks.rank(rank);
        const auto saver = open(options);
        StateForTest state(1);
        state.add_some();
        const auto saved = saver->save(7, state.state);
        const Status done = saved.ok() ? saved->wait_durable() : Status(saved.error());
        EXPECT_THAT(done.ok() ? "" : done.error().message,
                    HasSubstr("rank 1 does not see what rank 0 writes there"));
      });
    }
  }
  EXPECT_THAT(steps_in(folder / "0"), ElementsAre());
  EXPECT_THAT(steps_in(folder / "1"), ElementsAre());
}

// A last tier that fails once, at any operation, while the process lives on.
TEST(Checkpointer, WhatATierDidNotTakeGoesThereLaterAndStaysUntilThen) {
  StateForTest state(1);
  state.add_some();
  int failed = 0;
  for (int at = 1; at <= 60; ++at) {
    SCOPED_TRACE("operation " + std::to_string(at));
    const auto folder = base::TestFolder::in_memory("checkpoint");
    CheckpointOptions options = options_of({folder / "a", folder / "b"});
    options.tiers[0].keep_last = 1;
    options.tiers[1].storage = "faulty:kind=error,fail_at=" + std::to_string(at) + ",over=local";
    auto opened = Checkpointer::open(options);
    if (!opened.ok()) continue;
    const auto saver = std::move(opened).take();
    uint64_t failures = 0;
    for (uint64_t step = 1; step <= 3; ++step) {
      const auto saved = saver->save(step, state.state);
      ASSERT_TRUE(saved.ok()) << saved.error().message;
      failures += saved->wait_drained().ok() ? 0 : 1;
    }
    EXPECT_EQ(saver->stats().failed_drains, failures);
    EXPECT_EQ(saver->stats().failed, 0u);
    // The last one may be the one that failed.
    const auto further = saver->save(4, state.state);
    ASSERT_TRUE(further.ok() && further->wait_drained().ok());
    EXPECT_THAT(steps_in(folder / "b"), ElementsAre(1u, 2u, 3u, 4u));
    failed += static_cast<int>(failures);
  }
  EXPECT_GT(failed, 10);
}

TEST(Checkpointer, ASaveThatBlocksWaitsUntilTheOneBeforeIsOnTheLastTier) {
  StateForTest state(1);
  state.add_some();
  const auto folder = base::TestFolder::in_memory("checkpoint");
  CheckpointOptions options = options_of({folder / "a", folder / "b"});
  options.when_busy = WhenBusy::kBlock;
  options.tiers[1].drain_bytes_per_second_max = 100e3;  // some 0.3 s
  const auto saver = open(options);
  const auto first = saver->save(1, state.state);
  ASSERT_TRUE(first.ok());
  EXPECT_LT(first->times().drained, 0);
  const auto second = saver->save(2, state.state);
  ASSERT_TRUE(second.ok());
  EXPECT_GE(first->times().drained, 0);
  EXPECT_FALSE(second->was_skipped());
}

// What was saved by a clock that was ahead: files and manifest are of the future.
TEST(Checkpointer, AClockThatGoesBackDoesNotMakeTheNewestOld) {
  StateForTest first(1), second(2);
  first.add_some();
  second.add_some();
  const base::TestFolder folder("checkpoint");
  const auto tier = std::move(Tier::open({folder / "a"})).take();
  CheckpointOptions options = options_of({folder / "a"});
  ASSERT_TRUE(open(options)->save(1, first.state).ok());
  const SaveName early = tier->list()->saves.back();
  Manifest manifest = std::move(tier->read_manifest(early)).take();
  manifest.saved_unix_ns += 86400 * int64_t{1'000'000'000};
  std::ofstream(folder / ("a/" + folder_name(early) + "/manifest.json"))
      << write_manifest(manifest);
  const auto half = std::move(tier->begin({.step = 7, .sequence = 70, .id = 700})).take();
  for (const std::string& file : files_below(folder / "a", ""))
    std::filesystem::last_write_time(
        file, std::filesystem::file_time_type::clock::now() + std::chrono::hours(24));
  options.keep_last = 1;
  {
    const auto saver = open(options);
    EXPECT_EQ(saver->restore()->step, 1u);
    ASSERT_TRUE(saver->save(2, second.state).ok() && saver->wait().ok());
    const auto restored = saver->restore();
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    EXPECT_TRUE(is_same(*restored, second.state));
  }
  EXPECT_THAT(steps_in(folder / "a"), ElementsAre(2u));
  // Its writer lives.
  const auto pruned = prune(*tier, {.removes_leftovers = true}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_EQ(pruned->kept.size(), 1u);
}

// What goes wrong in the background is told, by the next save too, and costs no state.
TEST(Checkpointer, AFailedDrainIsToldAndCostsNoState) {
  StateForTest state(1);
  state.add_some();
  const base::TestFolder folder("checkpoint");
  const auto saver = open(options_of({folder / "a", folder / "b"}));
  std::ofstream(folder / "b") << "no folder";  // a tier that takes nothing
  const auto first = saver->save(1, state.state);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_FALSE(first->earlier_failure());
  ASSERT_TRUE(first->wait_durable().ok());
  while (saver->stats().failed_drains == 0) std::this_thread::yield();
  const auto second = saver->save(2, state.state);
  ASSERT_TRUE(second.ok()) << second.error().message;
  ASSERT_TRUE(second->earlier_failure());
  EXPECT_THAT(second->earlier_failure()->message, HasSubstr(folder / "b"));
  EXPECT_FALSE(second->wait_drained().ok());
  const auto third = saver->save(3, state.state);
  ASSERT_TRUE(third.ok());
  // As long as something is missing on a tier, whoever waits for that hears of it.
  for (int i = 0; i < 2; ++i) {
    const Status done = saver->wait();
    ASSERT_FALSE(done.ok());
    EXPECT_THAT(done.error().message, HasSubstr(folder / "b"));
  }
  EXPECT_GE(saver->stats().failed_drains, 5u);
  EXPECT_EQ(saver->stats().failed, 0u);
  EXPECT_THAT(steps_in(folder / "a"), ElementsAre(1u, 2u, 3u));
  std::filesystem::remove(folder / "b");
  const Status done = saver->wait();
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_THAT(steps_in(folder / "b"), ElementsAre(1u, 2u, 3u));
  for (const auto& handle : {first, second, third}) EXPECT_TRUE(handle->wait_drained().ok());
}

// A save that is on no tier costs the next one nothing either.
TEST(Checkpointer, AFailedSaveIsToldByTheNextOneWhichIsSaved) {
  StateForTest state(1);
  state.add_some();
  const base::TestFolder folder("checkpoint");
  const auto saver = open(options_of({folder / "a"}));
  std::ofstream(folder / "a") << "no folder";
  ASSERT_TRUE(saver->save(1, state.state).ok());
  while (saver->stats().failed == 0) std::this_thread::yield();
  std::filesystem::remove(folder / "a");
  const auto second = saver->save(2, state.state);
  ASSERT_TRUE(second.ok()) << second.error().message;
  ASSERT_TRUE(second->earlier_failure());
  EXPECT_TRUE(saver->wait().ok());
  EXPECT_THAT(steps_in(folder / "a"), ElementsAre(2u));
}

// Several jobs, or several objects of one, that save to one place.
TEST(Checkpointer, SeveralInOnePlaceKeepTogetherWhatTheRulesSay) {
  constexpr int kSavers = 6;
  StateForTest state(1);
  state.add_some();
  const base::TestFolder folder("checkpoint");
  CheckpointOptions options = options_of({folder / "fast", folder / "slow"});
  options.keep_last = 3;
  options.tiers[0].keep_last = 2;
  std::vector<std::unique_ptr<Checkpointer>> savers;
  for (int i = 0; i < kSavers; ++i) savers.push_back(open(options));
  uint64_t step = 0;
  for (int round = 0; round < 3; ++round) {
    for (const auto& saver : savers) {
      ASSERT_TRUE(saver->save(++step, state.state).ok());
      const Status done = saver->wait();
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_EQ(saver->restore()->step, step) << "saved last";
    }
  }
  EXPECT_THAT(steps_in(folder / "slow"), ElementsAre(step - 2, step - 1, step));
  EXPECT_THAT(steps_in(folder / "fast"), ElementsAre(step - 1, step));
  // All at once.
  std::vector<std::jthread> threads;
  for (const auto& saver : savers) {
    threads.emplace_back([&] {
      for (uint64_t i = 1; i <= 5; ++i) {
        EXPECT_TRUE(saver->save(100 + i, state.state).ok());
        const Status done = saver->wait();
        EXPECT_TRUE(done.ok()) << done.error().message;
      }
    });
  }
  threads.clear();
  const auto restored = savers[0]->restore();
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_TRUE(restored->notes.empty()) << restored->notes.front();
  EXPECT_TRUE(is_same(*restored, state.state));
  ASSERT_TRUE(savers[0]->save(200, state.state).ok() && savers[0]->wait().ok());
  EXPECT_LE(steps_in(folder / "slow").size(), 3u);
  EXPECT_LE(steps_in(folder / "fast").size(), 2u);
}

// Whatever fails, and wherever: the checkpoint before stays, and nothing is torn.
class FailingStore : public testing::TestWithParam<const char*> {};  // how

TEST_P(FailingStore, AtAnyOperationLeavesTheCheckpointBefore) {
  const std::string kind = GetParam();
  for (int at = 1;; ++at) {
    SCOPED_TRACE(kind + " at " + std::to_string(at));
    const base::TestFolder folder = base::TestFolder::in_memory("checkpoint");
    StateForTest first(1), second(2);
    first.add_some();
    second.add_some();
    {
      const auto saver = open(options_of({folder / "a"}));
      ASSERT_TRUE(saver->save(1, first.state).ok());
      ASSERT_TRUE(saver->wait().ok());
    }
    CheckpointOptions options = options_of({folder / "a"});
    options.threads = 1;
    options.keep_last = 1;
    options.tiers[0].storage =
        "faulty:kind=" + kind + ",fail_at=" + std::to_string(at) + ",over=local";
    bool was_told = false;
    if (auto saver = Checkpointer::open(options); saver.ok()) {
      const auto saved = (*saver)->save(2, second.state);
      was_told = !saved.ok() || !saved->wait_durable().ok();
    } else {
      was_told = true;
    }
    const auto reader = open(options_of({folder / "a"}));
    const auto restored = reader->restore();
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    EXPECT_TRUE(is_same(*restored, restored->step == 2 ? second.state : first.state));
    if (!was_told) {
      EXPECT_EQ(restored->step, 2u) << "what was called durable is there";
    }
    if (!was_told && at > 40) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FailingStore,
                         testing::Values("error", "enospc", "edquot", "estale", "short", "vanish"));

}  // namespace
}  // namespace forebay::checkpoint
