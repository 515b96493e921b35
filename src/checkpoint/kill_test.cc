// A process that is killed at any operation of a save, a drain, a prune or a restore leaves the
// newest whole checkpoint; the next one goes on from there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/test_folder.h"
#include "checkpoint/state_for_test.h"
#include "checkpoint/tier.h"
#include "forebay/checkpoint.h"
#include "sys/tcp.h"

namespace forebay::checkpoint {
namespace {

constexpr int kKilled = 137, kParts = 4;

CheckpointOptions options_of(const base::TestFolder& folder, const std::string& storage) {
  CheckpointOptions options;
  options.tiers = {{.place = folder / "fast", .storage = storage},
                   {.place = folder / "slow", .storage = storage}};
  options.tiers[0].keep_last = 1;
  options.keep_last = 2;
  options.shard_bytes_max = 16 << 10;
  options.chunk_bytes = 4096;
  options.threads = 1;
  return options;
}

// Saves steps 2 and 3 and restores; says "durable STEP" in `log` when it is.
int work(const CheckpointOptions& options, const CheckpointState& state, const std::string& log) {
  auto opened = Checkpointer::open(options);
  if (!opened.ok()) return 1;
  const auto saver = std::move(opened).take();
  for (const uint64_t step : {2, 3}) {
    const auto saved = saver->save(step, state);
    if (!saved.ok() || !saved->wait_durable().ok()) return 1;
    std::ofstream(log, std::ios::app) << step << std::endl;
  }
  return saver->wait().ok() && saver->restore().ok() ? 0 : 1;
}

// Of a child that does work(); 137 when it was killed.
int run_child(const CheckpointOptions& options, const CheckpointState& state,
              const std::string& log) {
  const pid_t child = fork();
  if (child == 0) _exit(work(options, state, log));
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

uint64_t last_durable(const std::string& log) {
  std::ifstream file(log);
  uint64_t step = 1;
  for (uint64_t next = 0; file >> next;) step = next;
  return step;
}

// Which tier's operations, which part of them, and whether files are shared.
class KilledAt : public testing::TestWithParam<std::tuple<int, int, bool>> {};

TEST_P(KilledAt, AnyOperationTheNewestDurableCheckpointIsRestored) {
  const auto [tier, part, shares] = GetParam();
  StateForTest first(1), second(2);
  first.add_some();
  second.add_some();
  int killed = 0;
  for (int at = 1 + part;; at += kParts) {
    SCOPED_TRACE("killed at " + std::to_string(at));
    const auto folder = base::TestFolder::in_memory("killed");
    CheckpointOptions sound = options_of(folder, "local");
    sound.share_unchanged = shares;
    {
      const auto saver = std::move(Checkpointer::open(sound)).take();
      ASSERT_TRUE(saver->save(1, first.state).ok());
      ASSERT_TRUE(saver->wait().ok());
    }
    CheckpointOptions deadly = sound;
    deadly.tiers[static_cast<size_t>(tier)].storage =
        "faulty:kind=kill,fail_at=" + std::to_string(at) + ",over=local";
    const std::string log = folder / "log";
    const int code = run_child(deadly, second.state, log);
    {
      const auto saver = std::move(Checkpointer::open(sound)).take();
      const auto restored = saver->restore();
      ASSERT_TRUE(restored.ok()) << restored.error().message;
      EXPECT_GE(restored->step, last_durable(log));
      EXPECT_TRUE(is_same(*restored, restored->step == 1 ? first.state : second.state));
      EXPECT_TRUE(restored->notes.empty()) << restored->notes.front();
      // What was left half-way is finished, and the next save is as any other.
      ASSERT_TRUE(saver->save(4, first.state).ok());
      ASSERT_TRUE(saver->wait().ok());
      EXPECT_EQ(saver->restore()->step, 4u);
    }
    const auto slow = std::move(Tier::open({folder / "slow"})).take();
    const Tier::Contents contents = std::move(slow->list()).take();
    ASSERT_FALSE(contents.saves.empty());
    EXPECT_EQ(contents.saves.back().step, 4u);
    EXPECT_LE(contents.saves.size(), 2u);
    std::vector<std::string> notes;
    const auto leftovers = slow->list_leftovers(notes);
    ASSERT_TRUE(leftovers.ok());
    for (const Tier::Leftover& left : *leftovers) EXPECT_TRUE(slow->remove_leftover(left).ok());
    EXPECT_TRUE(slow->list_leftovers(notes)->empty());
    if (code == 0) break;
    ASSERT_EQ(code, kKilled);
    ++killed;
  }
  EXPECT_GT(killed, 40 / kParts) << "operations at which it was killed";
}

INSTANTIATE_TEST_SUITE_P(Tiers, KilledAt,
                         testing::Combine(testing::Values(0, 1), testing::Range(0, kParts),
                                          testing::Bool()));

// --- one of several ranks ---

constexpr uint64_t kRows = 12, kColumns = 400;

std::vector<uint32_t> whole_of(uint32_t seed) {
  std::vector<uint32_t> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<uint32_t>(i) * 2654435761u + seed;
  return values;
}

Result<SaveHandle> save_rows(Checkpointer& saver, uint64_t step, uint64_t rank, uint64_t size) {
  const std::vector<uint32_t> whole = whole_of(static_cast<uint32_t>(step));
  const uint64_t rows = kRows / size, cells = rows * kColumns;
  CheckpointState state;
  state.tensors.push_back({"w",
                           "uint32",
                           {rows, kColumns},
                           std::as_bytes(std::span(whole).subspan(rank * cells, cells)),
                           {kRows, kColumns},
                           {rank * rows, 0}});
  return saver.save(step, state);
}

bool is_step(const Restored& restored) {
  const std::vector<uint32_t> values = whole_of(static_cast<uint32_t>(restored.step));
  const auto whole = std::as_bytes(std::span(values));
  return restored.tensors.size() == 1 &&
         std::equal(whole.begin(), whole.end(), restored.tensors[0].bytes.begin(),
                    restored.tensors[0].bytes.end());
}

// That was free just now; others are tried behind it.
int port_for_test() {
  const auto socket = sys::listen_tcp("localhost", 0).take();
  return std::min(sys::port_of(socket).take(), 65000);
}

// One rank: saves step 2. 0 when it is durable, 1 when it is told that it is not.
int work_as_rank(const CheckpointOptions& options, const RankAddress& address,
                 const std::string& log) {
  CheckpointOptions own = options;
  auto group = join_ranks(address);
  if (!group.ok()) return 1;
  own.group = std::move(group).take();
  auto opened = Checkpointer::open(own);
  if (!opened.ok()) return 1;
  const auto saver = std::move(opened).take();
  const auto saved = save_rows(*saver, 2, static_cast<uint64_t>(address.rank),
                               static_cast<uint64_t>(address.size));
  if (!saved.ok() || !saved->wait_durable().ok()) return 1;
  std::ofstream(log, std::ios::app) << 2 << std::endl;
  return 0;
}

class KilledRank : public testing::TestWithParam<int> {};  // which

TEST_P(KilledRank, AtAnyOperationEndsTheOthersAndLeavesAWholeCheckpoint) {
  constexpr int kRanks = 3;
  int killed = 0;
  for (int at = 1;; ++at) {
    SCOPED_TRACE("killed at " + std::to_string(at));
    const auto folder = base::TestFolder::in_memory("killed-rank");
    CheckpointOptions options = options_of(folder, "local");
    options.tiers.resize(1);
    options.tiers[0].keep_last = 0;
    {
      const auto saver = std::move(Checkpointer::open(options)).take();
      const auto saved = save_rows(*saver, 1, 0, 1);
      ASSERT_TRUE(saved.ok() && saved->wait_durable().ok());
    }
    RankAddress address{.size = kRanks,
                        .host = "localhost",
                        .port = port_for_test(),
                        .ports = 16,
                        .job = folder.path()};
    std::vector<pid_t> children;
    for (int rank = 0; rank < kRanks; ++rank) {
      address.rank = rank;
      CheckpointOptions own = options;
      if (rank == GetParam())
        own.tiers[0].storage = "faulty:kind=kill,fail_at=" + std::to_string(at) + ",over=local";
      children.push_back(fork());
      if (children.back() == 0) _exit(work_as_rank(own, address, folder / "log"));
    }
    bool was_killed = false;
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);  // nobody hangs
      ASSERT_TRUE(WIFEXITED(status));
      was_killed |= WEXITSTATUS(status) == kKilled;
    }
    const auto saver = std::move(Checkpointer::open(options)).take();
    const auto restored = saver->restore();
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    EXPECT_GE(restored->step, last_durable(folder / "log"));
    EXPECT_TRUE(is_step(*restored));
    if (!was_killed) break;
    ++killed;
  }
  EXPECT_GT(killed, 4) << "operations at which it was killed";
}

INSTANTIATE_TEST_SUITE_P(Ranks, KilledRank, testing::Values(0, 1));

}  // namespace
}  // namespace forebay::checkpoint
