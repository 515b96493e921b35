// What only file systems do: links, full disks, other processes, signals, few descriptors.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "storage/folder.h"
#include "storage/store_test_support.h"

namespace forebay::storage {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FileStoreTest : public testing::TestWithParam<std::string> {
 protected:
  FileStoreTest() : folder_("file-store") {
    // "uring without uring" stands for a kernel that refuses.
    const bool is_refused = GetParam() == "uring_refused";
    if (is_refused) setenv("FOREBAY_DISABLE_IO_URING", "1", 1);
    store_ = open_for_test(is_refused ? "uring" : GetParam(), root());
    unsetenv("FOREBAY_DISABLE_IO_URING");
  }
  const std::string& root() const { return folder_.path(); }
  std::unique_ptr<ReadQueue> queue(int depth = 4) {
    return store_->open_queue({.depth = depth, .name = "test"}).take();
  }
  void put_outside(const std::string& name, const std::string& text) {
    std::ofstream(root() + "/" + name, std::ios::binary) << text;
  }
  std::vector<std::string> names_on_disk(const std::string& below = "") {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(root() + "/" + below)) {
      out.push_back(entry.path().filename());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  TestFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST_P(FileStoreTest, ReadsBeyondTwoGibibytes) {
  constexpr uint64_t kSize = (uint64_t{5} << 30) + 12'345;
  {
    const int fd = ::open((root() + "/sparse").c_str(), O_CREAT | O_WRONLY, 0600);
    const bool is_sparse = ::ftruncate(fd, static_cast<off_t>(kSize)) == 0 &&
                           ::pwrite(fd, "end", 3, static_cast<off_t>(kSize - 3)) == 3;
    ::close(fd);
    if (!is_sparse) GTEST_SKIP() << "no sparse file of 5 GiB on this file system";
  }
  EXPECT_EQ(store_->stat("sparse")->size, kSize);
  const auto reads = queue();
  std::string out(10'000, '.');
  Read read{.path = "sparse",
            .offset = kSize - out.size(),
            .length = out.size(),
            .destination = writable(out).data(),
            .to_end = true};
  const Completion done = read_one(*reads, read);
  ASSERT_TRUE(done.status.ok()) << done.status.error().message;
  EXPECT_EQ(out.substr(out.size() - 3), "end");
  EXPECT_EQ(out[0], '\0');
}

// One read longer than a system call moves (2 GiB less a page).
TEST_P(FileStoreTest, OneReadMayBeLongerThanTwoGibibytes) {
  constexpr uint64_t kSize = (uint64_t{2} << 30) + 5000;
  {
    const int fd = ::open((root() + "/sparse").c_str(), O_CREAT | O_WRONLY, 0600);
    const bool is_sparse = ::ftruncate(fd, static_cast<off_t>(kSize)) == 0;
    ::close(fd);
    if (!is_sparse) GTEST_SKIP() << "no sparse file of 2 GiB on this file system";
  }
  struct Counter final : PieceVisitor {
    void visit(std::span<const std::byte> piece) override { bytes += piece.size(); }
    uint64_t bytes = 0;
  } counter;
  const Completion done =
      read_one(*queue(), {.path = "sparse", .length = kSize, .visitor = &counter, .to_end = true});
  ASSERT_TRUE(done.status.ok()) << done.status.error().message;
  EXPECT_EQ(done.bytes, kSize);
  EXPECT_EQ(counter.bytes, kSize);
}

TEST_P(FileStoreTest, FilesThatChangeBehindOurBackAreNoticed) {
  put_outside("f", std::string(5000, 'x'));
  const auto reads = queue();
  const Read read{.path = "f", .length = 5000, .to_end = true, .keep_open = true};
  ASSERT_TRUE(read_one(*reads, read).status.ok());
  put_outside("f", std::string(4000, 'x'));
  EXPECT_THAT(read_one(*reads, read).status.error().message,
              HasSubstr("f: changed since it was indexed: was 5000 bytes, is now 4000"));
  put_outside("f", std::string(50'000, 'x'));
  EXPECT_THAT(read_one(*reads, read).status.error().message, HasSubstr("is now 50000"));
}

TEST_P(FileStoreTest, ListingFollowsLinksOnceAndReportsTheRest) {
  fs::create_directories(root() + "/class/deep");
  put_outside("class/a", "1");
  fs::create_symlink(".", root() + "/class/deep/loop");
  fs::create_symlink("missing", root() + "/dangling");
  fs::create_symlink("class/a", root() + "/link");
  const Listing listing = store_->list("").take();
  EXPECT_THAT(paths_of(listing), ElementsAre("class/a", "link"));
  ASSERT_EQ(listing.skipped.size(), 2u);
  EXPECT_EQ(listing.skipped[0].path, "class/deep/loop");
  EXPECT_EQ(listing.skipped[0].reason, "symlink loop");
  EXPECT_EQ(listing.skipped[1].reason, "dangling symlink");
  EXPECT_EQ(store_->list("class").take().skipped[0].path, "class/deep/loop");
  EXPECT_THAT(store_->stat("class").error().message, HasSubstr("is not a regular file"));
}

TEST_P(FileStoreTest, UnpublishedFilesOfDeadProcessesAreCleanedUp) {
  const int dead = 0x3fffffff;
  fs::create_directories(root() + "/d");
  put_outside("d/" + part_name(dead, 0), "leftover");
  put_outside("d/" + part_name(static_cast<int>(getpid()), 7), "ours, perhaps in use");
  put_outside("d/.forebay-notes.part", "not a number: not ours");
  EXPECT_TRUE(store_->list("").take().files.empty());
  put(*store_, "d/f", "x");
  EXPECT_THAT(names_on_disk("d"),
              testing::UnorderedElementsAre(part_name(static_cast<int>(getpid()), 7),
                                            ".forebay-notes.part", "f"));
}

TEST_P(FileStoreTest, WhatAKilledWriterLeftIsListedAsNobodysAndRemoved) {
  const pid_t child = fork();
  if (child == 0) {
    auto writer = open_for_test("local", root())->create("d/f");
    _exit(writer.ok() && (*writer)->append(bytes_of(std::string(1 << 20, 'x'))).ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  put_outside("d/.forebay-notes.part", "not ours");
  const auto left = store_->list_unpublished("").take();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].bytes, 1u << 20);
  EXPECT_EQ(left[0].writer, Unpublished::Writer::kGone);
  EXPECT_TRUE(store_->remove_unpublished(left[0]).ok());
  EXPECT_EQ(store_->remove_unpublished(left[0]).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->remove_unpublished({.path = "d/.forebay-notes.part"}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_THAT(names_on_disk("d"), ElementsAre(".forebay-notes.part"));
}

// Else nobody could tell any more that the writer of what stays is gone.
TEST_P(FileStoreTest, AFolderThatStaysKeepsWhatAKilledWriterLeft) {
  const std::string part = part_name(0x3fffffff, 0);
  put(*store_, "d/f", "x");
  put_outside("d/" + part, "leftover");
  EXPECT_FALSE(store_->remove_folder("d").ok());
  EXPECT_THAT(names_on_disk("d"), testing::UnorderedElementsAre(part, "f"));
  ASSERT_TRUE(store_->remove("d/f").ok());
  EXPECT_TRUE(store_->remove_folder("d").ok());
  EXPECT_FALSE(fs::exists(root() + "/d"));
}

// A descriptor of the root is kept; what has its name since counts once somebody asks for that.
TEST_P(FileStoreTest, ARootThatIsMadeAgainIsFoundWhenItIsLookedFor) {
  put(*store_, "f", "old");
  const auto reads = queue();
  const std::string aside = root() + ".aside";
  fs::rename(root(), aside);
  store_->look_again();
  EXPECT_EQ(store_->stat("f").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->list("").error().code, ErrorCode::kNotFound);
  put(*store_, "d/g", "new");  // makes it
  EXPECT_EQ(get(*store_, "d/g"), "new");
  EXPECT_EQ(read_one(*reads, {.path = "d/g", .length = 3}).bytes, 3u);
  fs::remove_all(root());
  fs::rename(aside, root());
  store_->look_again();
  EXPECT_EQ(get(*store_, "f"), "old");
  EXPECT_EQ(store_->stat("d/g").error().code, ErrorCode::kNotFound);
}

TEST_P(FileStoreTest, ConcurrentWritersOfOneFileDoNotMeet) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 20; ++j) put(*store_, "f", std::string(1000, static_cast<char>('a' + i)));
    });
  }
  threads.clear();
  EXPECT_EQ(get(*store_, "f").size(), 1000u);
  EXPECT_THAT(names_on_disk(), ElementsAre("f"));
}

TEST_P(FileStoreTest, AFullDiskIsNamedAndLeavesNothing) {
  const std::string mount_point = root() + "/tiny";
  fs::create_directories(mount_point);
  if (::mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "may not mount a small tmpfs";
  }
  {
    const auto tiny =
        open_for_test(GetParam() == "uring_refused" ? "uring" : GetParam(), mount_point);
    const auto writer = tiny->create("f").take();
    const std::string chunk(300'000, 'x');
    Status status;
    for (int i = 0; i < 10 && status.ok(); ++i) status = writer->append(bytes_of(chunk));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(status.error().message, HasSubstr("No space left on device"));
    EXPECT_THAT(status.error().message, HasSubstr(" free after "));
    EXPECT_FALSE(writer->append(bytes_of("x")).ok());
    EXPECT_FALSE(writer->publish().ok());
    EXPECT_EQ(std::distance(fs::directory_iterator(mount_point), {}), 0);
    EXPECT_GT(*tiny->free_bytes(), 900'000u);
  }
  ::umount(mount_point.c_str());
}

TEST_P(FileStoreTest, FewDescriptorsAreEnoughForManyFiles) {
  for (int i = 0; i < 200; ++i) put_outside("f" + std::to_string(i), std::to_string(i));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto store = open_for_test(GetParam() == "uring_refused" ? "uring" : GetParam(), root());
  std::vector<std::string> paths;
  for (int i = 0; i < 200; ++i) paths.push_back("f" + std::to_string(i));
  const auto reads = store->open_queue({.depth = 4}).take();
  int good = 0;
  std::string problem;
  for (int round = 0; round < 2; ++round) {
    for (const std::string& path : paths) {
      const Completion done =
          read_one(*reads, {.path = path, .length = path.size() - 1, .keep_open = true});
      good += done.status.ok() ? 1 : 0;
      if (!done.status.ok()) problem = done.status.error().message;
    }
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(good, 400) << problem;
}

TEST_P(FileStoreTest, RunningOutOfDescriptorsSaysWhatToRaise) {
  put_outside("f", "x");
  const auto reads = queue(1);
  // Also lets the sanitizers see every type once: they need descriptors for that.
  ASSERT_TRUE(read_one(*reads, {.path = "f", .length = 1}).status.ok());
  ASSERT_FALSE(read_one(*reads, {.path = "none", .length = 1}).status.ok());
  std::vector<int> taken;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.push_back(fd);
  const Completion done = read_one(*reads, {.path = "f", .length = 1});
  for (const int fd : taken) ::close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(done.status.ok());
  EXPECT_EQ(done.status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(done.status.error().message, HasSubstr("raise `ulimit -n`"));
}

TEST_P(FileStoreTest, UnreadableFilesAndFoldersAreNamed) {
  put_outside("shut", "x");
  fs::create_directories(root() + "/closed");
  fs::permissions(root(), fs::perms::all);
  fs::permissions(root() + "/shut", fs::perms::none);
  fs::permissions(root() + "/closed", fs::perms::none);
  // Root reads everything: look as somebody else, in a child that can drop its rights for good.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(77);
    const auto store = open_for_test(GetParam() == "uring_refused" ? "uring" : GetParam(), root());
    const Result<Listing> listing = store->list("");
    const bool is_listed = listing.ok() && listing->files.size() == 1 &&
                           listing->skipped.size() == 1 && listing->skipped[0].path == "closed" &&
                           listing->skipped[0].reason == "permission denied";
    const Completion done = read_one(*store->open_queue({}).take(), {.path = "shut", .length = 1});
    const bool is_named =
        !done.status.ok() && done.status.error().message.ends_with("shut: Permission denied");
    _exit((is_listed ? 0 : 1) + (is_named ? 0 : 2) + (store->list("closed").ok() ? 4 : 0));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  fs::permissions(root() + "/closed", fs::perms::owner_all);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot become an ordinary user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_P(FileStoreTest, SignalsDoNotDisturbReads) {
  const std::string content = random_text(1'000'000);
  put_outside("f", content);
  static std::atomic<int> signals;
  signals = 0;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { signals.fetch_add(1, std::memory_order_relaxed); };
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);  // without SA_RESTART
  const itimerval often{{0, 300}, {0, 300}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  {
    const auto reads = queue();
    for (int i = 0; i < 300 && signals < 100; ++i) {
      std::string out(content.size(), '.');
      const Completion done = read_one(
          *reads,
          {.path = "f", .length = out.size(), .destination = writable(out).data(), .to_end = true});
      ASSERT_TRUE(done.status.ok()) << done.status.error().message;
      ASSERT_TRUE(out == content);
    }
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(signals.load(), 0);
}

TEST_P(FileStoreTest, MessagesNameAPathWithoutDoubledSlashes) {
  const std::string root = folder_ / "none";
  const auto store =
      open_for_test(GetParam() == "uring_refused" ? "uring" : GetParam(), root + "//");
  EXPECT_THAT(store->list("").error().message, testing::StartsWith(root + ": "));
  EXPECT_THAT(store->stat("f").error().message, testing::StartsWith(root + "/f: "));
}

TEST_P(FileStoreTest, PipeInPlaceOfAFileIsAnErrorAndNoWait) {
  put_outside("x", "0123456789");
  ASSERT_TRUE(store_->stat("x").ok());
  fs::remove(root() + "/x");
  ASSERT_EQ(mkfifo((root() + "/x").c_str(), 0600), 0);
  const auto reads = queue();
  for (const bool keep_open : {false, true}) {
    std::string out(10, '.');
    const Completion done = read_one(*reads, {.path = "x",
                                              .length = out.size(),
                                              .destination = writable(out).data(),
                                              .to_end = true,
                                              .keep_open = keep_open});
    EXPECT_FALSE(done.status.ok());
  }
  std::string out(10, '.');
  EXPECT_FALSE(store_->read_at("x", 0, writable(out)).ok());
}

TEST_P(FileStoreTest, ARootThatIsMissingIsMadeByTheFirstWrite) {
  const std::string below = root() + "/not/yet";
  const auto store = open_for_test(GetParam() == "uring_refused" ? "uring" : GetParam(), below);
  EXPECT_EQ(store->list("").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->stat("f").error().code, ErrorCode::kNotFound);
  EXPECT_GT(*store->free_bytes(), 0u);
  put(*store, "a/f", "x");
  EXPECT_EQ(get(*store, "a/f"), "x");
  put_outside("file", "x");
  const auto wrong = open_store("local", root() + "/file");
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(wrong.error().message, HasSubstr("is not a folder"));
}

INSTANTIATE_TEST_SUITE_P(Files, FileStoreTest,
                         testing::Values("local", "direct", "uring", "uring_refused"),
                         [](const testing::TestParamInfo<std::string>& spec) {
                           return spec.param;
                         });

TEST(UringStore, NamesWhyThreadsStandIn) {
  const TestFolder folder("uring");
  setenv("FOREBAY_DISABLE_IO_URING", "1", 1);
  const auto store = open_for_test("uring", folder.path());
  unsetenv("FOREBAY_DISABLE_IO_URING");
  EXPECT_THAT(store->capabilities().fallback_reason, HasSubstr("FOREBAY_DISABLE_IO_URING"));
  EXPECT_THAT(store->capabilities().fallback_reason, HasSubstr("threads with pread stand in"));
}

// A named pipe holds a read in the kernel for as long as the test likes.
TEST(UringStore, WakeAndStopReleaseAReapThatWaitsInTheKernel) {
  const TestFolder folder("uring-pipe");
  const auto store = open_for_test("uring", folder.path());
  if (!store->capabilities().fallback_reason.empty()) {
    GTEST_SKIP() << store->capabilities().fallback_reason;
  }
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int writer = ::open(pipe.c_str(), O_RDWR);
  const auto reads = store->open_queue({.depth = 2}).take();
  std::string out(3, '.');
  const Read read{.path = "pipe", .length = 3, .destination = writable(out).data()};
  reads->submit({&read, 1});
  Completion done;
  {
    std::jthread waker([&] { reads->wake(); });
    EXPECT_EQ(reads->reap({&done, 1}, {}), 0u);
  }
  {
    std::stop_source stop;
    std::jthread stopper([&] { stop.request_stop(); });
    EXPECT_EQ(reads->reap({&done, 1}, stop.get_token()), 0u);
  }
  ASSERT_EQ(::write(writer, "abc", 3), 3);
  while (reads->reap({&done, 1}, {}) == 0) {
  }
  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(out, "abc");
  ::close(writer);
}

// /proc refuses O_DIRECT on every kernel.
TEST(DirectStore, FallsBackPerFileAndNamesTheReason) {
  for (const char* spec : {"direct", "uring:direct=true"}) {
    const auto store = open_for_test(spec, "/proc/self");
    EXPECT_THAT(store->capabilities().fallback_reason, testing::Not(HasSubstr("O_DIRECT")));
    std::string out(4, '.');
    const Completion done =
        read_one(*store->open_queue({}).take(),
                 {.path = "status", .length = 4, .destination = writable(out).data()});
    ASSERT_TRUE(done.status.ok()) << done.status.error().message;
    EXPECT_EQ(out, "Name");
    EXPECT_THAT(store->capabilities().fallback_reason,
                HasSubstr("/proc/self/status refuses O_DIRECT"));
  }
}

TEST(LocalStore, CompletionsCountTimeAndCpu) {
  const TestFolder folder("local");
  const auto store = open_for_test("local", folder.path());
  put(*store, "f", random_text(3'000'000));
  CollectingVisitor visitor;
  const Completion done = read_one(*store->open_queue({}).take(),
                                   {.path = "f", .length = 3'000'000, .visitor = &visitor});
  ASSERT_TRUE(done.status.ok());
  EXPECT_GT(done.cpu_ns, 0);
  EXPECT_GT(done.visit_ns, 0);
  EXPECT_LE(done.visit_ns, done.ended_ns - done.started_ns);
}

}  // namespace
}  // namespace forebay::storage
