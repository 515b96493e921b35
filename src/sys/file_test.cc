// Files by descriptor: right bytes in spite of interruptions, and errors that name path and remedy.
#include "sys/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/test_folder.h"

namespace forebay::sys {
namespace {

using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  FileTest() { folder_ = open_file(kCurrentFolder, root_, OpenMode::kFolder).take(); }

  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + "/" + name).parent_path());
    std::ofstream(root_ + "/" + name, std::ios::binary) << text;
  }

  const base::TestFolder own_{"file"};
  const std::string root_ = own_.path();
  ScopedFd folder_;
};

std::span<std::byte> bytes_of(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), text.size()};
}

TEST_F(FileTest, ReadIsShortOnlyAtTheEnd) {
  put("a", "0123456789");
  const ScopedFd fd = open_file(folder_.get(), "a", OpenMode::kRead).take();
  std::string out(8, '.');
  EXPECT_EQ(read_at(fd.get(), bytes_of(out), 4), 6);
  EXPECT_EQ(out, "456789..");
  EXPECT_EQ(read_at(fd.get(), bytes_of(out), 10), 0);
  EXPECT_EQ(read_at(fd.get(), std::span<std::byte>(), 3), 0);
}

TEST_F(FileTest, ReadIntoTwoPlacesFillsTheFirstBeforeTheSecond) {
  put("a", "0123456789");
  const ScopedFd fd = open_file(folder_.get(), "a", OpenMode::kRead).take();
  std::string first(4, '.');
  std::string second(4, '.');
  EXPECT_EQ(read_at(fd.get(), bytes_of(first), bytes_of(second), 0), 8);
  EXPECT_EQ(first + second, "01234567");
  EXPECT_EQ(read_at(fd.get(), bytes_of(first), bytes_of(second), 5), 5);
  EXPECT_EQ(first + second, "56789567");
  EXPECT_EQ(read_at(fd.get(), bytes_of(first), bytes_of(second), 8), 2);
  EXPECT_EQ(first.substr(0, 2), "89");
}

TEST_F(FileTest, ErrorsNameThePathAndTheCause) {
  const Error missing = open_file(folder_.get(), "none/x", OpenMode::kRead).error();
  EXPECT_EQ(missing.code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.message, HasSubstr("none/x: No such file"));
  const Error full = error_from_errno(ENOSPC, "x", "write");
  EXPECT_EQ(full.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(full.message, HasSubstr("x: write: No space left"));
  const Error descriptors = error_from_errno(EMFILE, "x");
  EXPECT_EQ(descriptors.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(descriptors.message, HasSubstr("ulimit -n"));
  EXPECT_THAT(descriptors.message, HasSubstr("need about"));
  EXPECT_EQ(open_at(folder_.get(), std::string(5000, 'a'), OpenMode::kRead), -ENAMETOOLONG);
  EXPECT_EQ(open_at(folder_.get(), std::string_view("a\0b", 3), OpenMode::kRead), -EINVAL);
}

TEST_F(FileTest, WriteRenameRemove) {
  ASSERT_TRUE(make_folders(folder_.get(), "a/b/c").ok());
  ASSERT_TRUE(make_folders(folder_.get(), "a/b/c").ok());
  const ScopedFd fd = open_file(folder_.get(), "a/b/c/new", OpenMode::kCreateNew).take();
  std::string text = "hello";
  EXPECT_EQ(write_at(fd.get(), bytes_of(text), 2), 0);
  EXPECT_TRUE(sync_file(fd.get(), "new").ok());
  EXPECT_TRUE(rename_file(folder_.get(), "a/b/c/new", "a/final").ok());
  EXPECT_TRUE(sync_folder(folder_.get(), "a").ok());
  EXPECT_EQ(file_status(folder_.get(), "a/final")->size, 7u);
  EXPECT_TRUE(remove_file(folder_.get(), "a/final").ok());
  EXPECT_EQ(remove_file(folder_.get(), "a/final").error().code, ErrorCode::kNotFound);
  EXPECT_GT(*free_bytes(folder_.get(), "root"), 0u);
}

TEST_F(FileTest, CreateNewRefusesAnExistingFile) {
  put("a", "x");
  EXPECT_FALSE(open_file(folder_.get(), "a", OpenMode::kCreateNew).ok());
}

TEST(Process, KnowsWhoIsAlive) {
  EXPECT_TRUE(is_process_alive(getpid()));
  EXPECT_FALSE(is_process_alive(0x3fffffff));
}

// Signals without SA_RESTART interrupt slow calls; a pipe makes the call slow for certain.
TEST_F(FileTest, SurvivesSignalsThatDoNotRestartCalls) {
  static std::atomic<int> signals;
  signals = 0;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { signals.fetch_add(1, std::memory_order_relaxed); };
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{{0, 200}, {0, 200}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);

  std::string content(3 << 20, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 + (i >> 11));
  {
    const ScopedFd fd = open_file(folder_.get(), "big", OpenMode::kCreateNew).take();
    EXPECT_EQ(write_at(fd.get(), bytes_of(content), 0), 0);
    EXPECT_TRUE(sync_file(fd.get(), "big").ok());
  }
  for (int i = 0; i < 200 && signals < 50; ++i) {
    const ScopedFd fd = open_file(folder_.get(), "big", OpenMode::kRead).take();
    std::string out(content.size(), '.');
    ASSERT_EQ(read_at(fd.get(), bytes_of(out), 0), static_cast<int64_t>(content.size()));
    ASSERT_TRUE(out == content);
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(signals.load(), 0);
}

}  // namespace
}  // namespace forebay::sys
