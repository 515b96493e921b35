// A first tier that is a folder of each host's own: what its ranks saved is there, the whole is on
// the tier that all share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/test_folder.h"
#include "checkpoint/inventory.h"
#include "checkpoint/state_for_test.h"
#include "checkpoint/tier.h"
#include "forebay/checkpoint.h"

namespace forebay::checkpoint {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kRows = 12, kColumns = 500;

// Three ranks, the first two on one host. Each holds some rows of a tensor, and all hold another
// one.
class HostTiers : public testing::Test {
 protected:
  using Hosts = std::vector<std::string>;

  HostTiers() : whole_(kRows * kColumns) {
    for (size_t i = 0; i < whole_.size(); ++i) whole_[i] = static_cast<uint32_t>(i * 2654435761u);
  }

  CheckpointOptions options(const std::string& host) const {
    CheckpointOptions options;
    options.tiers = {{folder_ / host}, {folder_ / "shared"}};
    options.chunk_bytes = 4096;
    options.threads = 2;
    return options;
  }
  // `body` on as many ranks as there are hosts named, each on its own.
  void run(const Hosts& hosts, const std::function<void(Checkpointer&, int)>& body,
           const std::function<void(CheckpointOptions&)>& change = {}) {
    RanksForTest ranks(static_cast<int>(hosts.size()));
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < hosts.size(); ++i) {
      threads.emplace_back([&, rank = static_cast<int>(i)] {
        CheckpointOptions mine = options(hosts[static_cast<size_t>(rank)]);
        mine.group = ranks.rank(rank);
        if (change) change(mine);
        auto saver = Checkpointer::open(mine);
        ASSERT_TRUE(saver.ok()) << saver.error().message;
        body(**saver, rank);
      });
    }
  }
  void save(Checkpointer& saver, int rank, uint64_t step, bool is_drained = true) {
    const uint64_t rows = kRows / 3, first = rows * static_cast<uint64_t>(rank);
    CheckpointState state;
    state.tensors.push_back(
        {"w", "uint32", {rows, kColumns}, bytes_of(first, rows), {kRows, kColumns}, {first, 0}});
    state.tensors.push_back({"same", "uint32", {kColumns}, bytes_of(3, 1)});
    const auto saved = saver.save(step, state);
    ASSERT_TRUE(saved.ok()) << saved.error().message;
    const Status done = is_drained ? saver.wait() : saved->wait_durable();
    EXPECT_TRUE(done.ok()) << done.error().message;
  }
  void save_everywhere(const Hosts& hosts, uint64_t step, bool is_drained = true) {
    run(
        hosts, [&](Checkpointer& saver, int rank) { save(saver, rank, step, is_drained); },
        [&](CheckpointOptions& options) {
          if (!is_drained) options.tiers[1].drain_bytes_per_second_max = 1;
        });
  }
  // The rows of `rank`, of `size`, and what all hold.
  void expect_restores(Checkpointer& saver, int rank, uint64_t size, uint64_t step) {
    const uint64_t rows = kRows / size, first = rows * static_cast<uint64_t>(rank);
    const auto restored = saver.restore({.boxes = {{"w", {{first, 0}, {rows, kColumns}}}}});
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    EXPECT_EQ(restored->step, step);
    ASSERT_EQ(restored->tensors.size(), 2u);
    EXPECT_TRUE(std::ranges::equal(restored->tensors[0].bytes, bytes_of(3, 1)));
    EXPECT_TRUE(std::ranges::equal(restored->tensors[1].bytes, bytes_of(first, rows)));
    notes_[static_cast<size_t>(rank)] = restored->notes;
  }
  void expect_restores(const Hosts& hosts, uint64_t step) {
    run(hosts,
        [&](Checkpointer& saver, int rank) { expect_restores(saver, rank, hosts.size(), step); });
  }
  std::span<const std::byte> bytes_of(uint64_t row, uint64_t rows) const {
    return std::as_bytes(std::span(whole_).subspan(row * kColumns, rows * kColumns));
  }

  std::vector<uint64_t> steps_in(const std::string& place) const {
    const Tier::Contents contents = std::move(tier(place)->list()).take();
    std::vector<uint64_t> steps;
    for (const SaveName& save : contents.saves) steps.push_back(save.step);
    return steps;
  }
  std::vector<std::string> files_in(const std::string& place) const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / place))
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path().filename());
    std::sort(files.begin(), files.end());
    return files;
  }
  std::unique_ptr<Tier> tier(const std::string& place) const {
    return std::move(Tier::open({folder_ / place})).take();
  }
  void lose(const std::string& place) { std::filesystem::remove_all(folder_ / place); }

  const Hosts hosts_{"a", "a", "b"};
  std::vector<std::string> notes_[3];
  const base::TestFolder folder_ = base::TestFolder::in_memory("checkpoint");

 private:
  std::vector<uint32_t> whole_;
};

TEST_F(HostTiers, EachHostHasWhatItsRanksSavedAndTheNextTierTheWhole) {
  save_everywhere(hosts_, 7);
  EXPECT_EQ(files_in("a").size(), 3u) << "what both ranks have is there once";
  EXPECT_EQ(files_in("b").size(), 2u);
  EXPECT_EQ(files_in("shared").size(), 4u) << "and here as well";
  const SaveName name = std::move(tier("shared")->list()).take().saves.front();
  EXPECT_EQ(std::move(tier("shared")->check(name)).take().shards.size(), 4u);
  expect_restores(hosts_, 7);
  lose("a");
  lose("b");
  expect_restores(hosts_, 7);
}

TEST_F(HostTiers, ARestartFindsEverythingOnItsHosts) {
  save_everywhere(hosts_, 7, false);
  lose("shared");
  run(
      hosts_, [&](Checkpointer& saver, int rank) { expect_restores(saver, rank, 3, 7); },
      [](CheckpointOptions& options) { options.tiers[1].drain_bytes_per_second_max = 1; });
}

TEST_F(HostTiers, ALostHostCostsWhatWasNotCopiedYet) {
  save_everywhere(hosts_, 7);
  save_everywhere(hosts_, 8, false);
  EXPECT_THAT(steps_in("b"), ElementsAre(7u, 8u));
  lose("b");
  expect_restores(hosts_, 7);
  EXPECT_THAT(notes_[0], Contains(HasSubstr("rank 2 does not see it")));
}

TEST_F(HostTiers, ACopyThatWasCutGoesOnThoughRanksHaveMoved) {
  save_everywhere(hosts_, 7, false);
  EXPECT_THAT(steps_in("shared"), ElementsAre());
  run({"b", "b", "a", "a"}, [](Checkpointer& saver, int /*rank*/) {
    const Status done = saver.wait();
    EXPECT_TRUE(done.ok()) << done.error().message;
  });
  EXPECT_THAT(steps_in("shared"), ElementsAre(7u));
  lose("a");
  lose("b");
  expect_restores({"c", "c"}, 7);
}

// A rank that was stopped has told so, and has perhaps copied what another one is to copy now.
TEST_F(HostTiers, WhatRanksOfAnEarlierProcessHaveSaidDoesNotCount) {
  save_everywhere(hosts_, 7, false);
  const SaveName name = std::move(tier("a")->list()).take().saves.front();
  const std::string there = folder_ / ("shared/" + tier("shared")->working_folder(name));
  std::filesystem::create_directories(there);
  for (const std::string mark : {"/rank-00000.done", "/rank-00001.done", "/rank-00002.failed"})
    std::ofstream(there + mark) << "1";
  run(hosts_, [](Checkpointer& saver, int /*rank*/) {
    const Status done = saver.wait();
    EXPECT_TRUE(done.ok()) << done.error().message;
  });
  EXPECT_THAT(steps_in("shared"), ElementsAre(7u));
  expect_restores(hosts_, 7);
}

TEST_F(HostTiers, ACopyWhoseHostIsGoneIsLeft) {
  save_everywhere(hosts_, 7, false);
  lose("b");
  run(hosts_, [&](Checkpointer& saver, int rank) { save(saver, rank, 8); });
  EXPECT_THAT(steps_in("shared"), ElementsAre(8u));
  expect_restores(hosts_, 8);
}

// The next tier has that file of the other host only.
TEST_F(HostTiers, DamageOnOneHostIsMadeGoodByTheNextTier) {
  save_everywhere(hosts_, 7);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "b")) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
  expect_restores(hosts_, 7);
  EXPECT_THAT(notes_[2], Contains(HasSubstr("taken from " + (folder_ / "shared"))));
}

TEST_F(HostTiers, RulesOfRetentionHoldOnEachHost) {
  run(
      hosts_,
      [&](Checkpointer& saver, int rank) {
        for (uint64_t step = 1; step <= 4; ++step) save(saver, rank, step);
      },
      [](CheckpointOptions& options) { options.tiers[0].keep_last = 1; });
  EXPECT_THAT(steps_in("shared"), ElementsAre(1u, 2u, 3u, 4u));
  EXPECT_THAT(steps_in("a"), ElementsAre(4u));
  EXPECT_THAT(steps_in("b"), Contains(4u));
  EXPECT_LE(steps_in("b").size(), 2u) << "the one before may stay until the next save";
}

// Its place fails once, at any operation.
TEST_F(HostTiers, AHostThatCannotSaveTakesTheSaveFromAll) {
  save_everywhere(hosts_, 7);
  int failed = 0;
  for (int at = 1; at <= 60; ++at) {
    SCOPED_TRACE("operation " + std::to_string(at));
    std::atomic<int> opened = 0, saved = 0;
    RanksForTest ranks(3);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        CheckpointOptions mine = options(hosts_[static_cast<size_t>(rank)]);
        mine.group = ranks.rank(rank);
        mine.tiers[1].drain_bytes_per_second_max = 1;
        if (rank == 2)
          mine.tiers[0].storage = "faulty:kind=error,fail_at=" + std::to_string(at) + ",over=local";
        auto saver = Checkpointer::open(mine);
        if (!saver.ok()) return;
        ++opened;
        CheckpointState state;
        state.tensors.push_back({"same", "uint32", {kColumns}, bytes_of(3, 1)});
        const auto handle = (*saver)->save(8, state);
        if (handle.ok() && handle->wait_durable().ok()) ++saved;
      });
    }
    threads.clear();
    EXPECT_TRUE(opened == 0 || opened == 3) << opened;
    EXPECT_TRUE(saved == 0 || saved == 3) << saved;
    if (saved == 0) {
      EXPECT_THAT(steps_in("a"), ElementsAre(7u));
      EXPECT_THAT(steps_in("b"), ElementsAre(7u));
      failed += opened == 3 ? 1 : 0;
    }
    const std::vector<uint64_t> steps = steps_in("a");
    EXPECT_EQ(steps, steps_in("b"));
    for (const std::string host : {"a", "b"}) {
      const Tier::Contents contents = std::move(tier(host)->list()).take();
      if (contents.saves.size() > 1) {
        EXPECT_TRUE(tier(host)->remove(contents.saves.back()).ok());
      }
    }
  }
  EXPECT_GE(failed, 8);
  expect_restores(hosts_, 7);
}

TEST_F(HostTiers, OnlyTheFirstTierMayBeOfEachHost) {
  RanksForTest ranks(2);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      CheckpointOptions mine = options("a" + std::to_string(rank));
      mine.tiers[1].place += std::to_string(rank);
      mine.group = ranks.rank(rank);
      auto saver = std::move(Checkpointer::open(mine)).take();
      CheckpointState state;
      state.tensors.push_back({"same", "uint32", {kColumns}, bytes_of(3, 1)});
      const Status done = std::move(saver->save(7, state)).take().wait_durable();
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(done.error().message, HasSubstr("Only the first of several tiers"));
    });
  }
  threads.clear();
  for (const std::string host : {"a0", "a1"}) EXPECT_THAT(steps_in(host), ElementsAre());
  std::vector<std::string> notes;
  EXPECT_TRUE(std::move(tier("a0")->list_leftovers(notes)).take().empty());
}

TEST_F(HostTiers, APlaceOfOneHostIsListedVerifiedAndNotCopiedAsAWhole) {
  save_everywhere(hosts_, 7);
  const auto place = tier("b");
  const Inventory inventory = std::move(take_inventory(*place)).take();
  ASSERT_EQ(inventory.checkpoints.size(), 1u);
  EXPECT_EQ(inventory.checkpoints[0].shards, 4u);
  EXPECT_EQ(inventory.checkpoints[0].shards_elsewhere, 2u);
  const SaveName name = inventory.checkpoints[0].name;
  EXPECT_TRUE(std::move(verify_checkpoint(*place, name, 1, {}, {})).take().damage.empty());
  const auto to = tier("copy");
  const auto copied = copy_checkpoint(*place, *to, name, 0, {}, {});
  ASSERT_FALSE(copied.ok());
  EXPECT_THAT(copied.error().message, HasSubstr("lie on other hosts"));
  const auto extracted = extract_checkpoint(*place, name, folder_ / "out", 1 << 30, 1, {});
  ASSERT_FALSE(extracted.ok());
  EXPECT_THAT(extracted.error().message, HasSubstr("lies on another host"));
}

}  // namespace
}  // namespace forebay::checkpoint
