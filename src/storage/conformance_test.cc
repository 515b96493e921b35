// What every store must do, asked of each driver in the table. Wrappers stand on memory without
// faults. Drivers on files get a folder of their own; what needs a file system is asked of those
// only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "storage/s3_test_support.h"
#include "storage/store.h"
#include "storage/store_test_support.h"

namespace forebay::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ConformanceTest : public testing::TestWithParam<std::string> {
 protected:
  ConformanceTest() : folder_("conformance") {
    if (GetParam().find("s3") == std::string::npos) {
      store_ = open_for_test(GetParam(), folder_.path());
      return;
    }
    server_ = std::make_unique<FakeS3>();
    store_ = server_->open("data/some/prefix", {}, GetParam());
  }

  std::unique_ptr<ReadQueue> queue(int depth = 4) {
    return store_->open_queue({.depth = depth, .name = "test"}).take();
  }

  TestFolder folder_;
  std::unique_ptr<FakeS3> server_;  // of object stores
  std::unique_ptr<Store> store_;
};

TEST_P(ConformanceTest, ListsSortedPathsBelowAFolder) {
  put(*store_, "b/2", "two");
  put(*store_, "a", "1");
  put(*store_, "b/deep/3", "");
  put(*store_, "bb", "4");
  EXPECT_THAT(paths_of(store_->list("").take()), ElementsAre("a", "b/2", "b/deep/3", "bb"));
  EXPECT_THAT(paths_of(store_->list("b").take()), ElementsAre("b/2", "b/deep/3"));
  EXPECT_THAT(paths_of(store_->list("b/").take()), ElementsAre("b/2", "b/deep/3"));
  EXPECT_EQ(store_->list("").take().files[1].size, 3u);
  EXPECT_EQ(store_->list("none").error().code, ErrorCode::kNotFound);
}

// One that is not published is seen by those who clean up, and theirs only once its writer is gone.
TEST_P(ConformanceTest, WhatIsNotPublishedIsListedForThoseWhoCleanUp) {
  put(*store_, "a/f", "x");
  EXPECT_TRUE(store_->list_unpublished("").take().empty());
  auto writer = store_->create("a/g").take();
  // Beyond the first part of an upload.
  ASSERT_TRUE(writer->append(bytes_of(std::string(9 << 20, 'x'))).ok());
  if (store_->capabilities().can_sync) {
    ASSERT_TRUE(writer->sync().ok());
  }
  const auto begun = store_->list_unpublished("a").take();
  const std::string driver = GetParam();
  const bool shows_it =
      driver.find("memory") == std::string::npos && driver.find("null") == std::string::npos;
  ASSERT_EQ(begun.size(), shows_it ? 1u : 0u);
  EXPECT_THAT(paths_of(store_->list("").take()), ElementsAre("a/f"));
  if (!shows_it) return;
  const bool has_locks = driver.find("s3") == std::string::npos;
  EXPECT_GT(begun[0].bytes, 1u << 20);
  EXPECT_GT(begun[0].mtime_ns, 0);
  EXPECT_EQ(begun[0].writer,
            has_locks ? Unpublished::Writer::kLives : Unpublished::Writer::kUnknown);
  const Status removed = store_->remove_unpublished(begun[0]);
  if (has_locks) {
    EXPECT_EQ(removed.error().code, ErrorCode::kResourceExhausted);
  } else {
    EXPECT_TRUE(removed.ok()) << removed.error().message;
  }
  writer.reset();
  EXPECT_TRUE(store_->list_unpublished("").take().empty());
  EXPECT_FALSE(store_->list_unpublished("../x").ok());
  EXPECT_EQ(store_->remove_unpublished({.path = "a/f"}).ok(), false);
  EXPECT_EQ(get(*store_, "a/f"), "x");
}

TEST_P(ConformanceTest, FoldersAreListedByName) {
  put(*store_, "a/f", "x");
  put(*store_, "a/deep/f", "x");
  ASSERT_TRUE(store_->make_folder("empty").ok());
  auto folders = store_->list_folders("").take();
  std::sort(folders.begin(), folders.end());
  const bool has_folders =
      GetParam().find("s3") == std::string::npos && GetParam().find("memory") == std::string::npos;
  if (has_folders) {
    EXPECT_THAT(folders, ElementsAre("a", "empty"));
  } else {
    EXPECT_TRUE(folders.empty());
  }
}

// Two threads that both find the folder missing must not take each other's temporary file.
TEST_P(ConformanceTest, ManyThreadsCreateFilesInANewFolderAtOnce) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::jthread> threads;
    std::atomic<int> failures = 0;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const std::string path = fmt::format("new{}/{}", round, i);
        const auto writer = store_->create(path);
        if (!writer.ok() || !(*writer)->append(bytes_of(path)).ok() || !(*writer)->publish().ok())
          ++failures;
      });
    }
    threads.clear();
    EXPECT_EQ(failures, 0);
  }
}

// A folder that holds no file yet can be listed where there are folders, and is no file anywhere.
TEST_P(ConformanceTest, FoldersAreMadeBeforeTheyHoldAFile) {
  EXPECT_TRUE(store_->make_folder("new/deep").ok());
  EXPECT_TRUE(store_->make_folder("new/deep").ok());
  EXPECT_TRUE(store_->list("").take().files.empty());
  const bool has_folders =
      GetParam().find("s3") == std::string::npos && GetParam().find("memory") == std::string::npos;
  EXPECT_EQ(std::filesystem::is_directory(folder_ / "new/deep"), has_folders);
  EXPECT_EQ(store_->list("new/deep").ok(), has_folders);
  put(*store_, "new/deep/f", "x");
  EXPECT_EQ(get(*store_, "new/deep/f"), "x");
  EXPECT_EQ(store_->make_folder("../new").error().code, ErrorCode::kInvalidArgument);
  if (has_folders) {
    EXPECT_EQ(store_->make_folder("new/deep/f").error().code, ErrorCode::kInvalidArgument);
  }
}

TEST_P(ConformanceTest, FoldersAreRenamedWithAllThatTheyHold) {
  put(*store_, "before/f", "x");
  put(*store_, "before/deep/g", "y");
  put(*store_, "taken/h", "z");
  const Status renamed = store_->rename_folder("before", "after");
  if (!store_->capabilities().can_rename) {
    EXPECT_EQ(renamed.error().code, ErrorCode::kUnsupported);
    return;
  }
  ASSERT_TRUE(renamed.ok()) << renamed.error().message;
  EXPECT_EQ(get(*store_, "after/f"), "x");
  EXPECT_EQ(get(*store_, "after/deep/g"), "y");
  EXPECT_EQ(store_->stat("before/f").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->rename_folder("before", "again").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(store_->rename_folder("after", "taken").ok());
  EXPECT_EQ(get(*store_, "taken/h"), "z");
  EXPECT_EQ(get(*store_, "after/f"), "x");
  EXPECT_EQ(store_->rename_folder("after", "../out").error().code, ErrorCode::kInvalidArgument);
}

TEST_P(ConformanceTest, AFileWithTwoNamesStaysUntilBothAreRemoved) {
  put(*store_, "a/f", "x");
  put(*store_, "b/taken", "y");
  const Status linked = store_->link_file("a/f", "b/taken");
  if (!store_->capabilities().can_link) {
    EXPECT_EQ(linked.error().code, ErrorCode::kUnsupported);
    return;
  }
  ASSERT_TRUE(linked.ok()) << linked.error().message;
  ASSERT_TRUE(store_->link_file("a/f", "new/deep/g").ok());
  ASSERT_TRUE(store_->remove("a/f").ok());
  EXPECT_EQ(get(*store_, "b/taken"), "x");
  EXPECT_EQ(get(*store_, "new/deep/g"), "x");
  EXPECT_EQ(store_->link_file("a/f", "c").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->link_file("../a", "c").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store_->link_file("b/taken", "../c").error().code, ErrorCode::kInvalidArgument);
}

TEST_P(ConformanceTest, AFileIsLockedByManyOrByOne) {
  put(*store_, "f", "x");
  auto first = store_->lock_file("f", false);
  if (!first.ok() && first.error().code == ErrorCode::kUnsupported) {
    EXPECT_EQ(store_->lock_file("f", true).error().code, ErrorCode::kUnsupported);
    return;
  }
  ASSERT_TRUE(first.ok()) << first.error().message;
  auto second = store_->lock_file("f", false);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(store_->lock_file("f", true).error().code, ErrorCode::kResourceExhausted);
  second->reset();
  EXPECT_EQ(store_->lock_file("f", true).error().code, ErrorCode::kResourceExhausted);
  first->reset();
  EXPECT_TRUE(store_->lock_file("f", true).ok());
  EXPECT_EQ(store_->lock_file("g", false).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->lock_file("../g", false).error().code, ErrorCode::kInvalidArgument);
}

TEST_P(ConformanceTest, FoldersAreRemovedOnceTheyHoldNoFile) {
  put(*store_, "folder/f", "x");
  ASSERT_TRUE(store_->remove("folder/f").ok());
  const Status removed = store_->remove_folder("folder");
  EXPECT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "folder"));
  EXPECT_EQ(store_->remove_folder("../folder").error().code, ErrorCode::kInvalidArgument);
}

TEST_P(ConformanceTest, UnpublishedFilesAreHiddenAndDiscarded) {
  {
    const auto writer = store_->create("folder/new").take();
    ASSERT_TRUE(writer->append(bytes_of("draft")).ok());
    EXPECT_TRUE(store_->list("").take().files.empty());
    EXPECT_EQ(store_->stat("folder/new").error().code, ErrorCode::kNotFound);
  }
  EXPECT_TRUE(store_->list("").take().files.empty());
}

TEST_P(ConformanceTest, PublishReplacesInOneStep) {
  put(*store_, "f", "old");
  const auto writer = store_->create("f").take();
  ASSERT_TRUE(writer->append(bytes_of("brand")).ok());
  ASSERT_TRUE(writer->append(bytes_of(" new")).ok());
  EXPECT_EQ(get(*store_, "f"), "old");
  ASSERT_TRUE(writer->publish().ok());
  EXPECT_EQ(get(*store_, "f"), "brand new");
  EXPECT_EQ(store_->stat("f")->size, 9u);
  EXPECT_FALSE(writer->append(bytes_of("late")).ok());
}

TEST_P(ConformanceTest, PatchOverwritesWhatWasAppended) {
  const auto writer = store_->create("f").take();
  ASSERT_TRUE(writer->append(bytes_of("0123456789")).ok());
  if (!store_->capabilities().can_patch) {
    EXPECT_EQ(writer->patch(2, bytes_of("xy")).error().code, ErrorCode::kUnsupported);
    return;
  }
  EXPECT_TRUE(writer->patch(2, bytes_of("xy")).ok());
  EXPECT_EQ(writer->patch(9, bytes_of("xy")).error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(writer->append(bytes_of("!")).ok());
  ASSERT_TRUE(writer->publish().ok());
  EXPECT_EQ(get(*store_, "f"), "01xy456789!");
}

TEST_P(ConformanceTest, SyncWorksOrIsUnsupported) {
  const auto writer = store_->create("a/b/f").take();
  ASSERT_TRUE(writer->append(bytes_of("x")).ok());
  const Status synced = writer->sync();
  if (store_->capabilities().can_sync) {
    EXPECT_TRUE(synced.ok());
  } else {
    EXPECT_EQ(synced.error().code, ErrorCode::kUnsupported);
  }
  EXPECT_TRUE(writer->publish().ok());
}

TEST_P(ConformanceTest, RemoveStatAndFreeBytes) {
  put(*store_, "f", "x");
  EXPECT_TRUE(store_->remove("f").ok());
  EXPECT_EQ(store_->remove("f").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->stat("f").error().code, ErrorCode::kNotFound);
  EXPECT_GT(*store_->free_bytes(), 0u);
  EXPECT_FALSE(store_->describe().empty());
  EXPECT_GE(store_->capabilities().in_flight_max, 1);
}

TEST_P(ConformanceTest, PathsStayInside) {
  for (const char* path : {"", "/etc/passwd", "../x", "a/../../x", "a/.."}) {
    EXPECT_EQ(store_->create(path).error().code, ErrorCode::kInvalidArgument) << path;
    const Completion done = read_one(*queue(), {.path = path, .length = 1});
    EXPECT_EQ(done.status.error().code, ErrorCode::kInvalidArgument) << path;
  }
  put(*store_, "a..b/..c", "fine");
  EXPECT_EQ(get(*store_, "a..b/..c"), "fine");
}

TEST_P(ConformanceTest, ReadAtIsShortOnlyAtTheEnd) {
  put(*store_, "f", "0123456789");
  std::string out(4, '.');
  EXPECT_EQ(*store_->read_at("f", 3, writable(out)), 4u);
  EXPECT_EQ(out, "3456");
  EXPECT_EQ(*store_->read_at("f", 8, writable(out)), 2u);
  EXPECT_EQ(*store_->read_at("f", 10, writable(out)), 0u);
  EXPECT_EQ(*store_->read_at("f", 1000, writable(out)), 0u);
  EXPECT_EQ(store_->read_at("none", 0, writable(out)).error().code, ErrorCode::kNotFound);
  const auto file = store_->open_file("f");
  ASSERT_TRUE(file.ok()) << file.error().message;
  for (const uint64_t offset : {3, 8, 10, 1000, 3})
    EXPECT_EQ(*(*file)->read_at(offset, writable(out)),
              *store_->read_at("f", offset, writable(out)));
  const auto none = store_->open_file("none");
  EXPECT_EQ(none.ok() ? (*none)->read_at(0, writable(out)).error().code : none.error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(read_file(*store_, "f", 9).error().code, ErrorCode::kResourceExhausted);
}

TEST_P(ConformanceTest, AStopEndsWhatTheCallerWaitsFor) {
  put(*store_, "f", "0123456789");
  std::stop_source stop;
  store_->set_stop(stop.get_token());
  std::string out(4, '-');
  EXPECT_EQ(*store_->read_at("f", 0, writable(out)), 4u);
  stop.request_stop();
  EXPECT_EQ(store_->read_at("f", 0, writable(out)).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(store_->stat("f").error().code, ErrorCode::kCancelled);
  EXPECT_EQ(store_->list("").error().code, ErrorCode::kCancelled);
}

// Every way to ask for the same bytes: with and without destination and visitor, around piece and
// page boundaries.
TEST_P(ConformanceTest, AnyRangeArrivesWholeInOrder) {
  const std::string content = random_text(1'300'007);
  put(*store_, "f", content);
  const auto reads = queue();
  const uint64_t size = content.size();
  const std::pair<uint64_t, uint64_t> ranges[] = {
      {0, size},       {0, 0},           {0, 1},          {4095, 2}, {4096, 4096},
      {1, 262'144},    {511, 1'048'576}, {size - 1, 1},   {size, 0}, {8192, size - 8192},
      {262'143, 8193}, {0, 262'144},     {12'345, 99'999}};
  for (const auto& range : ranges) {
    for (int way = 0; way < 16; ++way) {
      const bool to_end = (way & 4) != 0;
      if (to_end && range.first + range.second != size) continue;
      std::string out(range.second + 1, '.');
      CollectingVisitor visitor;
      Read read{.path = "f",
                .offset = range.first,
                .length = range.second,
                .to_end = to_end,
                .keep_open = (way & 8) != 0,
                .tag = 7};
      if ((way & 1) != 0) read.destination = writable(out).data();
      if ((way & 2) != 0) read.visitor = &visitor;
      const Completion done = read_one(*reads, read);
      ASSERT_TRUE(done.status.ok()) << done.status.error().message;
      EXPECT_EQ(done.tag, 7u);
      EXPECT_EQ(done.bytes, range.second);
      EXPECT_LE(done.started_ns, done.ended_ns);
      const std::string expected = content.substr(range.first, range.second);
      if ((way & 1) != 0) {
        EXPECT_TRUE(out == expected + ".") << range.first << " " << range.second << " " << way;
      }
      if ((way & 2) != 0) {
        EXPECT_TRUE(visitor.text() == expected) << range.first << " " << range.second;
        EXPECT_GE(done.visit_ns, 0);
      }
    }
  }
}

TEST_P(ConformanceTest, ReadsPastTheEndSayWhatTheFileIsNow) {
  put(*store_, "f", "0123456789");
  const auto reads = queue();
  std::string out(20, '.');
  Read read{.path = "f", .offset = 4, .length = 10, .destination = writable(out).data()};
  Completion done = read_one(*reads, read);
  EXPECT_EQ(done.status.error().code, ErrorCode::kCorruption);
  EXPECT_THAT(done.status.error().message, HasSubstr("f: changed since it was indexed"));
  EXPECT_THAT(done.status.error().message, HasSubstr("is now 10 bytes"));
  EXPECT_EQ(done.bytes, 6u);
  EXPECT_EQ(out.substr(0, 7), "456789.");
  read.offset = 100;
  EXPECT_EQ(read_one(*reads, read).status.error().code, ErrorCode::kCorruption);
}

TEST_P(ConformanceTest, ReadsToTheEndNoticeGrowthAndShrinking) {
  for (const uint64_t size : {uint64_t{10}, uint64_t{4096}, uint64_t{262'144}, uint64_t{700'000}}) {
    put(*store_, "f", random_text(size));
    const auto reads = queue();
    for (const int change : {-1, 1}) {
      for (const bool keeps : {false, true}) {
        const uint64_t believed = size + static_cast<uint64_t>(change);
        std::string out(believed, '.');
        CollectingVisitor visitor;
        Read read{.path = "f",
                  .length = believed,
                  .destination = keeps ? writable(out).data() : nullptr,
                  .visitor = &visitor,
                  .to_end = true};
        const Completion done = read_one(*reads, read);
        ASSERT_FALSE(done.status.ok()) << size << " " << change;
        EXPECT_EQ(done.status.error().code, ErrorCode::kCorruption);
        EXPECT_THAT(done.status.error().message,
                    HasSubstr("was " + std::to_string(believed) + " bytes, is now " +
                              std::to_string(size)));
      }
    }
  }
}

TEST_P(ConformanceTest, MissingFilesAreNotFound) {
  const auto reads = queue();
  const Completion done = read_one(*reads, {.path = "no/such", .length = 5, .tag = 3});
  EXPECT_EQ(done.status.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(done.status.error().message, HasSubstr("no/such"));
  EXPECT_EQ(done.tag, 3u);
  put(*store_, "f", "x");
  ASSERT_TRUE(store_->remove("f").ok());
  EXPECT_EQ(read_one(*reads, {.path = "f", .length = 1, .keep_open = true}).status.error().code,
            ErrorCode::kNotFound);
}

TEST_P(ConformanceTest, KeptFilesAreForgottenWhenReplacedOrRemoved) {
  put(*store_, "f", "old");
  const auto reads = queue();
  std::string out(3, '.');
  const Read read{.path = "f", .length = 3, .destination = writable(out).data(), .keep_open = true};
  ASSERT_TRUE(read_one(*reads, read).status.ok());
  put(*store_, "f", "new");
  ASSERT_TRUE(read_one(*reads, read).status.ok());
  EXPECT_EQ(out, "new");
  ASSERT_TRUE(store_->remove("f").ok());
  EXPECT_EQ(read_one(*reads, read).status.error().code, ErrorCode::kNotFound);
}

TEST_P(ConformanceTest, ManyReadsInFlightCompleteOnceEach) {
  std::map<std::string, std::string> files;
  for (uint64_t i = 0; i < 40; ++i) {
    const std::string path = "d/" + std::to_string(i);
    files[path] = random_text(1 + i * 777, i);
    put(*store_, path, files[path]);
  }
  for (const int depth : {1, 3, 16}) {
    const auto reads = queue(depth);
    std::vector<std::string> outs;
    std::vector<std::string> paths;
    std::vector<Read> batch;
    for (int round = 0; round < 10; ++round) {
      for (const auto& [path, content] : files) {
        outs.emplace_back(content.size(), '.');
        paths.push_back(path);
      }
    }
    for (size_t i = 0; i < outs.size(); ++i) {
      batch.push_back({.path = paths[i],
                       .length = outs[i].size(),
                       .destination = writable(outs[i]).data(),
                       .to_end = true,
                       .keep_open = i % 3 == 0,
                       .tag = i});
    }
    reads->submit(std::span(batch).first(100));
    reads->submit(std::span(batch).subspan(100));
    std::vector<int> seen(outs.size());
    std::vector<Completion> done(7);
    for (size_t count = 0; count < outs.size();) {
      const size_t got = reads->reap(done, {});
      ASSERT_GT(got, 0u);
      for (size_t i = 0; i < got; ++i) {
        ASSERT_TRUE(done[i].status.ok()) << done[i].status.error().message;
        ++seen[done[i].tag];
        EXPECT_EQ(outs[done[i].tag], files[paths[done[i].tag]]);
      }
      count += got;
    }
    EXPECT_EQ(seen, std::vector<int>(outs.size(), 1));
    EXPECT_EQ(reads->reap(done, {}), 0u);  // nothing is left to wait for
  }
}

TEST_P(ConformanceTest, DepthMayChangeWhileReadsAreInFlight) {
  const std::string content = random_text(5000, 1);
  put(*store_, "d/file", content);
  const auto reads = store_->open_queue({.depth = 1, .depth_max = 12, .name = "test"}).take();
  std::vector<std::string> outs(300, std::string(content.size(), '.'));
  std::vector<Completion> done(5);
  const int depths[] = {12, 3, 1, 8, 2, 12};
  size_t finished = 0, submitted = 0;
  for (int round = 0; finished < outs.size(); ++round) {
    if (submitted < outs.size()) {
      for (int i = 0; i < 50; ++i, ++submitted) {
        const Read read{.path = "d/file",
                        .length = content.size(),
                        .destination = writable(outs[submitted]).data(),
                        .tag = submitted};
        reads->submit({&read, 1});
      }
    }
    const int depth = depths[round % 6];
    EXPECT_GE(reads->set_depth(depth), 1);
    EXPECT_LE(reads->set_depth(depth), depth);
    const size_t got = reads->reap(done, {});
    for (size_t i = 0; i < got; ++i) {
      ASSERT_TRUE(done[i].status.ok()) << done[i].status.error().message;
      EXPECT_EQ(outs[done[i].tag], content);
    }
    finished += got;
  }
  EXPECT_EQ(finished, outs.size());
}

TEST_P(ConformanceTest, WakeAndStopReleaseAWaitingReap) {
  BlockingVisitor gate;
  put(*store_, "f", "x");
  const auto reads = queue(1);
  std::vector<Completion> done(1);
  // With nothing submitted there is nothing to wait for.
  EXPECT_EQ(reads->reap(done, {}), 0u);
  if (GetParam().find("uring") != std::string::npos) {
    GTEST_SKIP() << "the reaping thread reads: a visitor cannot hold it up";
  }
  const Read read{.path = "f", .length = 1, .visitor = &gate};
  reads->submit({&read, 1});
  {
    std::jthread waker([&] {
      gate.wait_until_entered();
      reads->wake();
    });
    EXPECT_EQ(reads->reap(done, {}), 0u);
  }
  {
    std::stop_source stop;
    std::jthread stopper([&] {
      gate.wait_until_entered();
      stop.request_stop();
    });
    EXPECT_EQ(reads->reap(done, stop.get_token()), 0u);
  }
  gate.open();
  while (reads->reap(done, {}) == 0) {
  }
  EXPECT_TRUE(done[0].status.ok());
  reads->wake();
  EXPECT_EQ(reads->reap(done, {}), 0u);
}

TEST_P(ConformanceTest, AQueueMayEndWithReadsInFlight) {
  const std::string content = random_text(300'000);
  put(*store_, "f", content);
  for (int round = 0; round < 10; ++round) {
    CollectingVisitor visitor;  // one read only: calls of several would overlap
    std::vector<std::string> outs(50, std::string(content.size(), '.'));
    std::vector<Read> batch;
    for (std::string& out : outs) {
      batch.push_back({.path = "f", .length = out.size(), .destination = writable(out).data()});
    }
    batch[0].visitor = &visitor;
    const auto reads = queue();
    reads->submit(batch);
    std::vector<Completion> done(3);
    if (round % 2 == 0) reads->reap(done, {});
  }
}

TEST_P(ConformanceTest, ReplacedFilesAreReadWholeOldOrNew) {
  constexpr size_t kSize = 600'000;
  put(*store_, "f", std::string(kSize, 'a'));
  std::jthread writer([&](std::stop_token stop) {
    for (char letter = 'b'; !stop.stop_requested(); letter = letter == 'z' ? 'a' : letter + 1) {
      put(*store_, "f", std::string(kSize, letter));
    }
  });
  const auto reads = queue();
  int whole = 0;
  for (int i = 0; i < 60; ++i) {
    std::string out(kSize, '.');
    CollectingVisitor visitor;
    const Completion done =
        read_one(*reads, {.path = "f",
                          .length = kSize,
                          .destination = i % 2 == 0 ? writable(out).data() : nullptr,
                          .visitor = i % 2 == 0 ? nullptr : &visitor,
                          .to_end = true,
                          .keep_open = i % 3 == 0});
    // A store of many requests a read may meet one replacement after the other, and then says so.
    if (!done.status.ok() && !store_->capabilities().is_local &&
        done.status.error().message.find("replaced while it was read") != std::string::npos)
      continue;
    ASSERT_TRUE(done.status.ok()) << done.status.error().message;
    const std::string& seen = i % 2 == 0 ? out : visitor.text();
    EXPECT_EQ(seen.find_first_not_of(seen[0]), std::string::npos);
    EXPECT_NE(seen[0], '.');
    ++whole;
  }
  EXPECT_GT(whole, 0);
}

std::vector<std::string> specs() {
  std::vector<std::string> out;
  for (const Driver* driver : builtin_drivers()) {
    const std::string name(driver->name);
    if (name == "null") continue;  // keeps no bytes: null_test.cc
    if (name == "slow") {
      out.push_back("slow:latency=100us,over=memory");
      out.push_back("slow:latency=50us,distribution=uniform,jitter=50us,over=uring");
    } else if (name == "faulty") {
      out.push_back("faulty:over=memory");
    } else {
      out.push_back(name);
    }
  }
  out.push_back("uring:direct=true,piece=64KiB");
  out.push_back("local:piece=4KiB");
  out.push_back("s3:range=64KiB,connections=3");
  out.push_back("slow:latency=100us,over=s3");
  return out;
}

INSTANTIATE_TEST_SUITE_P(Stores, ConformanceTest, testing::ValuesIn(specs()),
                         [](const testing::TestParamInfo<std::string>& spec) {
                           std::string name;
                           for (const char c : spec.param) {
                             name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           }
                           return name;
                         });

TEST(BuiltinDrivers, EachHasANameASummaryAndCompleteOptions) {
  std::string_view before;
  for (const Driver* driver : builtin_drivers()) {
    EXPECT_LT(before, driver->name) << "sorted by name";
    before = driver->name;
    EXPECT_FALSE(driver->summary.empty());
    for (const StoreOption& option : driver->options) {
      EXPECT_FALSE(option.name.empty() || option.unit_and_range.empty() || option.help.empty());
    }
  }
}

}  // namespace
}  // namespace forebay::storage
