// Walks over trees with links, loops, hidden names and many files.
#include "sys/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "sys/file.h"

namespace forebay::sys {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class WalkTest : public testing::Test {
 protected:
  WalkTest() { folder_ = open_file(kCurrentFolder, root_, OpenMode::kFolder).take(); }

  void put(const std::string& name, const std::string& text = "x") {
    std::filesystem::create_directories(std::filesystem::path(root_ + "/" + name).parent_path());
    std::ofstream(root_ + "/" + name) << text;
  }
  void link(const std::string& to, const std::string& name) {
    std::filesystem::create_symlink(to, root_ + "/" + name);
  }
  std::vector<std::string> paths(const Walk& walk) {
    std::vector<std::string> out;
    for (const FoundFile& file : walk.files) out.push_back(file.path);
    return out;
  }
  std::vector<std::string> reasons(const Walk& walk) {
    std::vector<std::string> out;
    for (const PassedOver& one : walk.passed_over) out.push_back(one.path + ": " + one.reason);
    return out;
  }

  const base::TestFolder own_{"walk"};
  const std::string root_ = own_.path();
  ScopedFd folder_;
};

TEST_F(WalkTest, FilesComeSortedWithSizes) {
  put("b/2", "12");
  put("a/1", "1");
  put("c", "123");
  std::filesystem::create_directories(root_ + "/empty");
  const Walk walk = walk_folder(folder_.get(), "", {}).take();
  EXPECT_THAT(paths(walk), ElementsAre("a/1", "b/2", "c"));
  EXPECT_EQ(walk.files[2].size, 3u);
  EXPECT_GT(walk.files[2].mtime_ns, 0);
  EXPECT_THAT(paths(walk_folder(folder_.get(), "b", {}).take()), ElementsAre("2"));
}

TEST_F(WalkTest, LinksAreFollowedOnceAndTroubleIsReported) {
  put("real/1");
  put("real/deep/2");
  link("real", "alias");      // the folder is listed under its own name
  link(".", "real/deep/up");  // a loop onto its own folder
  link("nowhere", "dangling");
  link("self", "self");
  link("real/1", "file_link");
  ASSERT_EQ(mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  for (int round = 0; round < 20; ++round) {
    const Walk walk = walk_folder(folder_.get(), "", {}).take();
    EXPECT_THAT(paths(walk), ElementsAre("file_link", "real/1", "real/deep/2"));
    EXPECT_THAT(reasons(walk), ElementsAre("alias: folder already listed under another name",
                                           "dangling: dangling symlink", "pipe: not a regular file",
                                           "real/deep/up: symlink loop", "self: symlink loop"));
  }
}

TEST_F(WalkTest, FoldersOutsideAreReachedThroughLinks) {
  put("data/a");
  put("elsewhere/deep/b");
  link("../elsewhere", "data/one");
  link("../elsewhere", "data/two");
  link("../../data", "elsewhere/deep/back");
  const Walk walk = walk_folder(folder_.get(), "data", {}).take();
  EXPECT_THAT(paths(walk), ElementsAre("a", "one/deep/b"));
  EXPECT_THAT(reasons(walk), ElementsAre("one/deep/back: symlink loop",
                                         "two: folder already listed under another name"));
}

TEST_F(WalkTest, HiddenNamesAreLeftOut) {
  put("a");
  put(".part");
  WalkOptions options;
  options.is_hidden = [](std::string_view name) { return name == ".part"; };
  EXPECT_THAT(paths(walk_folder(folder_.get(), "", options).take()), ElementsAre("a"));
}

TEST_F(WalkTest, AMissingStartIsAnError) {
  EXPECT_EQ(walk_folder(folder_.get(), "none", {}).error().code, ErrorCode::kNotFound);
}

TEST_F(WalkTest, ManyFilesAndFoldersWithFewDescriptors) {
  for (int folder = 0; folder < 100; ++folder) put("many/" + std::to_string(folder) + "/x");
  for (int i = 0; i < 1500; ++i) put("flat/" + std::to_string(i));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const Result<Walk> walk = walk_folder(folder_.get(), "", {});
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(walk.ok()) << walk.error().message;
  EXPECT_EQ(walk->files.size(), 1600u);
  EXPECT_TRUE(walk->passed_over.empty());
}

TEST_F(WalkTest, AnUnreadableFolderBelowIsPassedOver) {
  put("shut/a");
  put("open/b");
  std::filesystem::permissions(root_, std::filesystem::perms::all);
  std::filesystem::permissions(root_ + "/shut", std::filesystem::perms::none);
  // Root reads every folder: look as somebody else, in a child that can drop its rights for good.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(77);
    const Result<Walk> walk = walk_folder(folder_.get(), "", {});
    const bool is_right = walk.ok() && paths(*walk) == std::vector<std::string>{"open/b"} &&
                          reasons(*walk) == std::vector<std::string>{"shut: permission denied"};
    const Result<Walk> shut = walk_folder(folder_.get(), "shut", {});
    const bool is_named = !shut.ok() && shut.error().message == "shut: Permission denied";
    _exit(is_right && is_named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  std::filesystem::permissions(root_ + "/shut", std::filesystem::perms::owner_all);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot become an ordinary user";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace forebay::sys
