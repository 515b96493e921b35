// Something else in place of a file of a checkpoint: another tier or the checkpoint before is
// taken, the damage is named, and nothing waits for it or stops at it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/test_folder.h"
#include "checkpoint/inventory.h"
#include "checkpoint/state_for_test.h"

namespace forebay::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

// What is put there; false when this machine has no such thing.
bool put_odd(const std::string& kind, const std::string& path) {
  const std::string aside = path + ".aside";
  fs::rename(path, aside);
  if (kind == "pipe") return mkfifo(path.c_str(), 0600) == 0;
  if (kind == "device") return mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 5)) == 0;  // zeros
  if (kind == "folder") return fs::create_directory(path);
  if (kind == "huge") {
    fs::copy_file(aside, path);
    fs::resize_file(path, kManifestBytesMax + (1 << 20));
  }
  if (kind == "link") fs::create_symlink(aside, path);
  if (kind == "link to a device") fs::create_symlink("/dev/zero", path);
  if (kind == "link to itself") fs::create_symlink(path, path);
  if (kind == "socket") {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    const bool is_bound =
        path.size() < sizeof(address.sun_path) &&
        bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    return is_bound;
  }
  return true;  // "nothing": it is gone
}

CheckpointOptions options_of(const std::vector<std::string>& places) {
  CheckpointOptions options;
  for (const std::string& place : places) options.tiers.push_back({place});
  options.chunk_bytes = 4096;
  options.threads = 2;
  return options;
}

// What, in place of which file.
class OddFile : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  static std::string file() { return std::get<1>(GetParam()); }
  static bool put(const std::string& place, const SaveName& save) {
    return put_odd(std::get<0>(GetParam()), place + "/" + folder_name(save) + "/" + file());
  }
};

TEST_P(OddFile, GivesWayToAnotherTierOrTheCheckpointBeforeAndIsNamed) {
  const auto folder = base::TestFolder::in_memory("odd");
  StateForTest first(1), second(2);
  first.add_some();
  second.add_some();
  const std::string fast = folder / "f", slow = folder / "s";
  {
    const auto saver = std::move(Checkpointer::open(options_of({fast, slow}))).take();
    ASSERT_TRUE(saver->save(1, first.state).ok() && saver->save(2, second.state).ok());
    ASSERT_TRUE(saver->wait().ok());
  }
  const auto tier = std::move(Tier::open({fast})).take();
  const SaveName newest = tier->list()->saves.back();
  if (!put(fast, newest)) GTEST_SKIP() << "this machine has no such files";
  {
    const auto saver = std::move(Checkpointer::open(options_of({fast, slow}))).take();
    const auto restored = saver->restore();
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    EXPECT_EQ(restored->step, 2u);
    EXPECT_TRUE(is_same(*restored, second.state));
    EXPECT_THAT(restored->notes, Contains(HasSubstr(file()))) << "the damage is named";
  }
  const auto saver = std::move(Checkpointer::open(options_of({fast}))).take();
  const auto restored = saver->restore();
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(restored->step, 1u);
  EXPECT_TRUE(is_same(*restored, first.state));
  EXPECT_THAT(restored->notes, Contains(HasSubstr(file())));
  // Looked at by hand: listed, named by a verify, which goes on; a prune keeps what is whole.
  EXPECT_EQ(take_inventory(*tier)->checkpoints.size(), 2u);
  const auto verified = verify_checkpoint(*tier, newest, 1, {}, {});
  ASSERT_TRUE(verified.ok()) << verified.error().message;
  ASSERT_EQ(verified->damage.size(), 1u);
  EXPECT_EQ(verified->damage[0].file, file());
  const auto copy = std::move(Tier::open({folder / "c"})).take();
  EXPECT_FALSE(copy_checkpoint(*tier, *copy, newest, 0, {}, {}).ok());
  auto pruned = prune(*tier, {.rules = {.keep_last = 1}, .removes_leftovers = true}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_EQ(pruned->removed.size() + pruned->failed.size(), 0u);
  EXPECT_EQ(tier->list()->saves.size(), 2u);
  // Once something newer is whole it goes; what is no file stays in its folder, and is named.
  ASSERT_TRUE(saver->save(3, first.state).ok() && saver->wait().ok());
  pruned = prune(*tier, {.rules = {.keep_last = 1}, .removes_leftovers = true}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_EQ(tier->list()->saves.size(), 1u);
  EXPECT_EQ(saver->restore()->step, 3u);
}

std::string name_of_case(const testing::TestParamInfo<OddFile::ParamType>& told) {
  std::string name = std::string(std::get<0>(told.param)) + "_as_" + std::get<1>(told.param);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, OddFile,
    testing::Combine(testing::Values("pipe", "socket", "device", "folder", "huge", "link",
                                     "link to a device", "link to itself", "nothing"),
                     testing::Values("manifest.json", "rank-00000-000.safetensors")),
    name_of_case);

// --- tiers that go and come back while the process lives ---

TEST(TierBroughtBack, IsFoundByTheProcessThatHasIt) {
  const auto folder = base::TestFolder::in_memory("back");
  StateForTest state(1);
  state.add_some();
  const std::string fast = folder / "fast", slow = folder / "slow";
  const auto saver = std::move(Checkpointer::open(options_of({fast, slow}))).take();
  ASSERT_TRUE(saver->save(1, state.state).ok() && saver->wait().ok());
  for (const std::string& place : {fast, slow}) {
    SCOPED_TRACE(place);
    // Gone: made again. As after an unmount: an empty folder, then what was there before.
    for (const bool leaves_folder : {false, true}) {
      const auto newest = saver->restore();
      ASSERT_TRUE(newest.ok()) << newest.error().message;
      const uint64_t step = newest->step + 1;
      fs::rename(place, folder / "aside");
      if (leaves_folder) fs::create_directory(place);
      ASSERT_TRUE(saver->save(step, state.state).ok());
      Status done = saver->wait();
      ASSERT_TRUE(done.ok()) << done.error().message;
      const auto there = std::move(Tier::open({place})).take();
      EXPECT_EQ(there->list()->saves.back().step, step);
      EXPECT_TRUE(there->check(there->list()->saves.back()).ok());
      fs::remove_all(place);
      fs::rename(folder / "aside", place);
      ASSERT_TRUE(saver->save(step + 1, state.state).ok());
      done = saver->wait();
      ASSERT_TRUE(done.ok()) << done.error().message;
      const auto back = std::move(Tier::open({place})).take();
      EXPECT_EQ(back->list()->saves.front().step, 1u) << "what was there before";
      EXPECT_EQ(back->list()->saves.back().step, step + 1);
      const auto restored = saver->restore();
      ASSERT_TRUE(restored.ok()) << restored.error().message;
      EXPECT_EQ(restored->step, step + 1);
      EXPECT_TRUE(is_same(*restored, state.state));
    }
  }
}

// A relative place means the folder that it meant when it was opened.
TEST(TierBroughtBack, StaysWhereItWasWhenTheProcessGoesElsewhere) {
  const auto folder = base::TestFolder::in_memory("back");
  StateForTest state(1);
  state.add_some();
  fs::create_directory(folder / "elsewhere");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  const auto saver = std::move(Checkpointer::open(options_of({"run"}))).take();
  const bool is_saved = saver->save(1, state.state).ok() && saver->wait().ok();
  fs::current_path(folder / "elsewhere");
  const bool is_saved_again = saver->save(2, state.state).ok() && saver->wait().ok();
  fs::current_path(before);
  EXPECT_TRUE(is_saved && is_saved_again);
  EXPECT_EQ((*Tier::open({folder / "run"}))->list()->saves.size(), 2u);
  EXPECT_TRUE(fs::is_empty(folder / "elsewhere"));
}

}  // namespace
}  // namespace forebay::checkpoint
