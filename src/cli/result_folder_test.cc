// Who may write to a result folder, and what is left of it.
#include "cli/result_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/test_folder.h"
#include "sys/process.h"

namespace forebay::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Locks belong to open files: a second claim of this process is as good as another's.
TEST(ResultFolder, ASecondRunIsRefusedByNameUntilTheFirstEnds) {
  const base::TestFolder work("result-folder");
  const std::string path = work / "runs/a";
  auto first = make_result_folder(path, "demo");
  ASSERT_TRUE(first.ok()) << first.error().message;
  const auto second = make_result_folder(path + "//", "demo");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(second.error().message,
              AllOf(HasSubstr(path + ": another run is writing there"),
                    HasSubstr("process " + std::to_string(sys::process_id())),
                    HasSubstr("a folder of its own")));
  EXPECT_TRUE(std::filesystem::exists(path)) << "the loser took the winner's folder away";
  { std::ofstream(path + "/result.json") << "{}"; }
  discard_result_folder(*first);
  EXPECT_FALSE(std::filesystem::exists(path + "/.running"));
  EXPECT_TRUE(std::filesystem::exists(path + "/result.json"));
  const auto third = make_result_folder(path, "demo");
  EXPECT_TRUE(third.ok()) << third.error().message;
}

// Whatever ends the writing, a launcher's kill or a full disk, result.json is there before the
// rest.
TEST(ResultFolder, ResultJsonIsWrittenBeforeAllOtherFiles) {
  for (const char* blocked : {"workload.yaml", "summary.json"}) {
    const base::TestFolder work("result-folder");
    std::filesystem::create_directories(work / blocked);
    emulate::RunResult result;
    result.options.accelerators = 1;
    EXPECT_FALSE(write_result(work.path(), result).ok()) << blocked;
    EXPECT_TRUE(std::filesystem::exists(work / "result.json")) << blocked;
  }
}

// A killed run leaves its file, and the kernel frees its lock.
TEST(ResultFolder, TheClaimOfADeadProcessDoesNotBlock) {
  const base::TestFolder work("result-folder");
  { std::ofstream(work / ".running") << "process 999999 on host gone\n"; }
  const auto folder = make_result_folder(work.path(), "demo");
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  std::string holder;
  std::ifstream claim(work / ".running");
  std::getline(claim, holder);
  EXPECT_THAT(holder, HasSubstr("process " + std::to_string(sys::process_id()) + " on host"));
}

// A name is free text, and no path.
TEST(ResultFolder, AnyNameOfAWorkloadMakesOneFolder) {
  const base::TestFolder work("result-folder");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(work.path());
  for (const char* name : {"team/run", "team\nrun", "../run"}) {
    const auto folder = make_result_folder("", name);
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    EXPECT_EQ(folder->path.find_first_of("/\n", sizeof("results")), std::string::npos)
        << folder->path;
    EXPECT_TRUE(std::filesystem::is_directory(folder->path)) << folder->path;
  }
  EXPECT_EQ(make_result_folder("", "team/run")->path, "results/team-run-0003");
  std::filesystem::current_path(before);
}

// Another run may have claimed the folder since: its file stays.
TEST(ResultFolder, OnlyTheOwnClaimIsTakenAway) {
  const base::TestFolder work("result-folder");
  const auto first = make_result_folder(work.path(), "demo");
  ASSERT_TRUE(first.ok());
  discard_result_folder(*first);
  const auto second = make_result_folder(work.path(), "demo");
  ASSERT_TRUE(second.ok()) << second.error().message;
  discard_result_folder(*first);
  EXPECT_TRUE(std::filesystem::exists(work / ".running"));
}

TEST(ResultFolder, WhatWasMadeForNothingGoesAgain) {
  const base::TestFolder work("result-folder");
  const auto folder = make_result_folder(work / "a/b", "demo");
  ASSERT_TRUE(folder.ok());
  discard_result_folder(*folder);
  EXPECT_FALSE(std::filesystem::exists(work / "a"));
}

}  // namespace
}  // namespace forebay::cli
