// What saves, drains, copies and prunes leave that were killed anywhere: all of it is listed and
// goes with a prune; what somebody writes, and what is not ours, stays.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/test_folder.h"
#include "checkpoint/inventory.h"
#include "checkpoint/shard_io.h"
#include "checkpoint/state_for_test.h"
#include "storage/s3_test_support.h"

namespace forebay::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr int kKilled = 137, kParts = 4;
const PruneOptions kCleaning{.removes_leftovers = true};

CheckpointOptions options_of(const std::vector<CheckpointTier>& tiers) {
  CheckpointOptions options;
  options.tiers = tiers;
  options.keep_last = 1;
  options.shard_bytes_max = 16 << 10;
  options.chunk_bytes = 4096;
  options.threads = 1;
  return options;
}

std::string deadly(int at) {
  return "faulty:kind=kill,fail_at=" + std::to_string(at) + ",over=local";
}

// What there is in a folder, and two levels down, that no finished checkpoint has.
std::vector<std::string> rubbish_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().lexically_relative(folder);
    const bool is_in_one = save_from_folder(path.substr(0, path.find('/'))).has_value();
    if (path != "latest" && (!is_in_one || path.find("/.") != path.npos)) out.push_back(path);
  }
  return out;
}

uint64_t bytes_of(const std::vector<std::string>& files, const std::string& folder) {
  uint64_t bytes = 0;
  for (const std::string& file : files) {
    if (fs::is_regular_file(folder + "/" + file)) bytes += fs::file_size(folder + "/" + file);
  }
  return bytes;
}

// All that is left over at `place` is listed, with its bytes, and gone after a prune.
void expect_listed_and_pruned(const std::string& place) {
  if (!fs::exists(place)) return;
  const auto tier = std::move(Tier::open({place})).take();
  const std::vector<std::string> rubbish = rubbish_in(place);
  std::vector<std::string> notes;
  const auto leftovers = tier->list_leftovers(notes);
  ASSERT_TRUE(leftovers.ok()) << leftovers.error().message;
  uint64_t bytes = 0;
  for (const Tier::Leftover& left : *leftovers) bytes += left.bytes;
  EXPECT_EQ(bytes, bytes_of(rubbish, place)) << testing::PrintToString(rubbish);
  EXPECT_EQ(leftovers->empty(), rubbish.empty()) << testing::PrintToString(rubbish);
  const auto pruned = prune(*tier, kCleaning, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_THAT(pruned->kept, IsEmpty());
  EXPECT_THAT(pruned->failed, IsEmpty());
  EXPECT_EQ(pruned->leftovers.size(), leftovers->size());
  EXPECT_THAT(rubbish_in(place), IsEmpty());
}

// What is killed, and which part of its operations.
class KilledAnywhere : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(KilledAnywhere, WhatIsLeftIsListedAndPruned) {
  const auto [what, part] = GetParam();
  StateForTest state(1);
  state.add_some();
  int killed = 0, dirty = 0;
  for (int at = 1 + part;; at += kParts) {
    SCOPED_TRACE(what + " killed at " + std::to_string(at));
    const auto folder = base::TestFolder::in_memory("leftovers");
    const std::vector<CheckpointTier> sound{{folder / "fast"}, {folder / "slow"}};
    {
      const auto saver = std::move(Checkpointer::open(options_of(sound))).take();
      ASSERT_TRUE(saver->save(1, state.state).ok() && saver->wait().ok());
    }
    const pid_t child = fork();
    if (child == 0) {
      if (what == "copy") {
        const auto from = std::move(Tier::open({folder / "fast"})).take();
        const auto to = std::move(Tier::open({folder / "copy", deadly(at)})).take();
        _exit(copy_checkpoint(*from, *to, from->list()->saves.back(), 0, {}, {}).ok() ? 0 : 1);
      }
      std::vector<CheckpointTier> tiers = sound;
      tiers[what == "save" ? 0 : 1].storage = deadly(at);
      const auto saver = Checkpointer::open(options_of(tiers));
      _exit(saver.ok() && (*saver)->save(2, state.state).ok() && (*saver)->wait().ok() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    for (const std::string place : {"fast", "slow", "copy"}) {
      if (fs::exists(folder / place)) dirty += rubbish_in(folder / place).empty() ? 0 : 1;
      expect_listed_and_pruned(folder / place);
    }
    const auto saver = std::move(Checkpointer::open(options_of(sound))).take();
    const auto restored = saver->restore();
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    EXPECT_TRUE(is_same(*restored, state.state));
    if (WEXITSTATUS(status) == 0) break;
    ASSERT_EQ(WEXITSTATUS(status), kKilled);
    ++killed;
  }
  EXPECT_GT(killed, 3);
  EXPECT_GT(dirty, 2) << "places with something to clean up";
}

INSTANTIATE_TEST_SUITE_P(Kinds, KilledAnywhere,
                         testing::Combine(testing::Values("save", "drain", "copy"),
                                          testing::Range(0, kParts)));

// A save as far as its shard, on a store of its own.
struct HalfASave {
  explicit HalfASave(const std::string& place, uint64_t sequence = 7)
      : tier(std::move(Tier::open({place})).take()), name{7, sequence, 7} {
    writing = std::move(tier->begin(name)).take();
    const std::string header(4096, 'x');
    Shard shard{.file = "rank-00000-000.safetensors"};
    const ShardImage image{header, 0, {}};
    const Status written = write_shard(
        tier->store(), tier->working_folder(name), image, {4096}, [](uint64_t) { return Status(); },
        shard);
    EXPECT_TRUE(written.ok()) << written.error().message;
    manifest = {.step = 7,
                .id = 7,
                .tool = "test",
                .world_size = 1,
                .chunk_bytes = 4096,
                .shards = {shard}};
    manifest.tree = "{}";
  }
  std::unique_ptr<Tier> tier;
  SaveName name;
  Manifest manifest;
  std::shared_ptr<const void> writing;
};

TEST(Leftovers, WhatALivingWriterWritesStaysHoweverOldItLooks) {
  const base::TestFolder folder("leftovers");
  StateForTest state(1);
  state.add_some();
  // Older than the newest checkpoint, and "quiet": only its lock tells that it lives.
  HalfASave half(folder / "a", 1);
  CheckpointOptions options = options_of({{folder / "a"}});
  const auto saver = std::move(Checkpointer::open(options)).take();
  ASSERT_TRUE(saver->save(1, state.state).ok() && saver->wait().ok());
  const auto tier = std::move(Tier::open({folder / "a"})).take();
  const PruneOptions impatient{.removes_leftovers = true, .quiet_seconds = -3600};
  auto pruned = prune(*tier, impatient, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_THAT(pruned->kept, ElementsAre(half.tier->working_folder(half.name)));
  EXPECT_THAT(pruned->leftovers, IsEmpty());
  const auto published = half.tier->publish(half.name, half.manifest, std::move(half.writing));
  ASSERT_TRUE(published.ok()) << published.error().message;
  EXPECT_TRUE(tier->check(half.name).ok());
  EXPECT_TRUE(tier->list_leftovers(pruned->notes)->empty());
}

// Where nobody can tell (here: nothing is being written just now) a fresh one stays. One that was
// pruned nevertheless does not become a checkpoint without its shards.
TEST(Leftovers, WhatWasPrunedUnderAWriterIsNotPublished) {
  const base::TestFolder folder("leftovers");
  HalfASave half(folder / "a");
  half.writing.reset();
  const auto tier = std::move(Tier::open({folder / "a"})).take();
  auto pruned = prune(*tier, kCleaning, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_THAT(pruned->kept, ElementsAre(half.tier->working_folder(half.name)));
  pruned = prune(*tier, {.removes_leftovers = true, .quiet_seconds = -3600}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_EQ(pruned->leftovers.size(), 1u);
  EXPECT_EQ(pruned->bytes, 4096u);
  half.writing = std::move(half.tier->begin(half.name)).take();
  const auto published = half.tier->publish(half.name, half.manifest, std::move(half.writing));
  ASSERT_FALSE(published.ok());
  EXPECT_THAT(published.error().message, HasSubstr("was removed before the save had ended"));
  EXPECT_TRUE(tier->list()->saves.empty());
}

TEST(Leftovers, WhatIsNotOursIsNeitherListedNorRemoved) {
  const base::TestFolder folder("leftovers");
  const std::string left = folder / "a/saving-000000000002-000001-0000002a";
  fs::create_directories(left + "/folder");
  fs::create_directories(folder / "a/data");
  fs::create_directories(folder / "a/saving-mine");
  fs::create_directories(folder / "elsewhere");
  const std::vector<std::string> foreign = {"a/notes",
                                            "a/.forebay-notes.part",
                                            "a/data/.forebay-1073741823-0.part",
                                            "a/saving-mine/rank-00000-000.safetensors",
                                            "a/saving-000000000002-000001-0000002a/folder/f",
                                            "elsewhere/f"};
  for (const std::string& file : foreign) std::ofstream(folder / file) << "x";
  std::ofstream(left + "/rank-00000-000.safetensors") << "xy";
  fs::create_directory_symlink(folder / "elsewhere", left + "/link");
  const auto tier = std::move(Tier::open({folder / "a"})).take();
  std::vector<std::string> notes;
  const auto leftovers = tier->list_leftovers(notes);
  ASSERT_TRUE(leftovers.ok()) << leftovers.error().message;
  ASSERT_EQ(leftovers->size(), 1u);
  const auto pruned = prune(*tier, {.removes_leftovers = true, .quiet_seconds = -3600}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  // Its folder cannot go while it holds something; that is named, and the prune goes on.
  ASSERT_EQ(pruned->failed.size(), 1u);
  EXPECT_THAT(pruned->failed[0].what, HasSubstr("holds what is no file of a checkpoint"));
  EXPECT_FALSE(
      fs::exists(folder / "a/removing-000000000002-000001-0000002a/rank-00000-000.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "a/removing-000000000002-000001-0000002a/folder/f"));
  EXPECT_TRUE(fs::exists(folder / "a/removing-000000000002-000001-0000002a/link/f"));
  for (const std::string& file : foreign)
    EXPECT_TRUE(file.find("0002a") != file.npos || fs::exists(folder / file)) << file;
}

TEST(Leftovers, WhatAnotherPruneHasRemovedIsNoFailure) {
  const auto folder = base::TestFolder::in_memory("leftovers");
  for (int i = 0; i < 300; ++i) {
    const std::string left = folder / fmt::format("a/removing-000000000002-{:06}-0000002a", i);
    std::filesystem::create_directories(left);
    std::ofstream(left + "/rank-00000-000.safetensors") << "x";
  }
  std::vector<std::jthread> pruning;
  for (int i = 0; i < 2; ++i)
    pruning.emplace_back([&] {
      const auto tier = std::move(Tier::open({folder / "a"})).take();
      const auto pruned = prune(*tier, kCleaning, {});
      ASSERT_TRUE(pruned.ok()) << pruned.error().message;
      EXPECT_THAT(pruned->failed, IsEmpty());
    });
  pruning.clear();
  EXPECT_TRUE(std::filesystem::is_empty(folder / "a"));
}

// Somebody has moved a checkpoint to an archive and left a link.
TEST(Leftovers, WhatALinkLeadsToIsNotRemoved) {
  const base::TestFolder folder("leftovers");
  StateForTest state(1);
  state.add_some();
  CheckpointOptions options = options_of({{folder / "a"}});
  options.keep_last = 0;
  const auto saver = std::move(Checkpointer::open(options)).take();
  for (const uint64_t step : {1, 2})
    ASSERT_TRUE(saver->save(step, state.state).ok() && saver->wait().ok());
  const auto tier = std::move(Tier::open({folder / "a"})).take();
  const std::string first = folder_name(tier->list()->saves.front());
  std::filesystem::rename(folder / ("a/" + first), folder / "archive");
  std::filesystem::create_directory_symlink("../archive", folder / ("a/" + first));
  EXPECT_EQ(saver->restore({.step = 1})->step, 1u);
  const auto pruned = prune(*tier, {.rules = {.keep_last = 1}}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_EQ(pruned->removed.size(), 1u);
  std::vector<std::string> notes;
  EXPECT_TRUE(tier->list_leftovers(notes)->empty());
  EXPECT_TRUE(std::filesystem::exists(folder / "archive/manifest.json"));
  std::filesystem::rename(folder / "archive", folder / ("a/" + first));
  EXPECT_TRUE(is_same(*saver->restore({.step = 1}), state.state));
}

TEST(Leftovers, UploadsThatNobodyEndedAreListedAndPrunedOnceTheyAreQuiet) {
  const storage::FakeS3 server;
  const auto open_tier = [&] { return Tier::on(server.open("data/run"), "s3://data/run"); };
  const SaveName name{7, 7, 7};
  const pid_t child = fork();
  if (child == 0) {
    const auto tier = open_tier();
    const std::string bytes(20 << 20, 'x');
    const std::vector<std::string> files = {folder_name(name) + "/rank-00000-000.safetensors",
                                            folder_name(name) + "/rank-00001-000.safetensors",
                                            "latest", "somebody/elses"};
    for (const std::string& file : files) {
      auto writer = tier->store().create(file);
      const bool is_sent =
          writer.ok() && (*writer)->append(storage::bytes_of(bytes)).ok() && (*writer)->sync().ok();
      if (!is_sent) _exit(1);
      static_cast<void>(std::move(writer).take().release());  // as if it had been killed
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const auto tier = open_tier();
  auto inventory = take_inventory(*tier);
  ASSERT_TRUE(inventory.ok()) << inventory.error().message;
  ASSERT_EQ(inventory->leftovers.size(), 2u);
  EXPECT_EQ(inventory->leftovers[0].folder, "latest");
  EXPECT_EQ(inventory->leftovers[1].folder, folder_name(name));
  EXPECT_EQ(inventory->leftovers[1].files, 2u);
  EXPECT_GE(inventory->leftovers[1].bytes, 2u * (16 << 20));
  auto pruned = prune(*tier, kCleaning, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_THAT(pruned->kept, ElementsAre("latest", folder_name(name))) << "somebody may write them";
  pruned = prune(*tier, {.removes_leftovers = true, .quiet_seconds = -3600}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_THAT(pruned->leftovers, ElementsAre("latest", folder_name(name)));
  inventory = take_inventory(*tier);
  ASSERT_TRUE(inventory.ok());
  EXPECT_TRUE(inventory->leftovers.empty());
  EXPECT_EQ(tier->store().list_unpublished("")->size(), 1u) << "somebody else's";
  // A server that does not tell is named.
  server.set_faults(R"([{"query": "uploads", "kind": "status", "status": 403, "code": "No"}])");
  inventory = take_inventory(*tier);
  ASSERT_TRUE(inventory.ok()) << inventory.error().message;
  EXPECT_THAT(inventory->notes, ElementsAre(HasSubstr("cannot be listed")));
}

}  // namespace
}  // namespace forebay::checkpoint
