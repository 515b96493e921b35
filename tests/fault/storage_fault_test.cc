// A small job on a store that misbehaves at operation k, for every k and every kind of fault:
// nothing hangs, no error is lost, and what was published is whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "storage/faulty.h"
#include "storage/store_test_support.h"

namespace forebay::storage {
namespace {

const std::map<std::string, std::string>& files() {
  static const std::map<std::string, std::string> all{
      {"a", random_text(1000, 1)}, {"d/b", random_text(300'000, 2)}, {"d/c", "last"}};
  return all;
}

struct Outcome {
  int errors = 0;  // that the store reported
  int wrong = 0;   // bytes or lists that differ in silence
};

void count(const Status& status, Outcome& outcome) {
  outcome.errors += status.ok() ? 0 : 1;
}

void write_all(Store& store, Outcome& outcome) {
  for (const auto& [path, content] : files()) {
    auto writer = store.create(path);
    if (!writer.ok()) {
      ++outcome.errors;
      continue;
    }
    const size_t half = content.size() / 2;
    Status status = (*writer)->append(bytes_of(content.substr(0, half)));
    if (status.ok()) status = (*writer)->append(bytes_of(content.substr(half)));
    if (status.ok()) status = (*writer)->patch(0, bytes_of(content.substr(0, 1)));
    if (status.ok()) status = (*writer)->publish();
    count(status, outcome);
  }
}

void read_all(Store& store, Outcome& outcome) {
  const Result<Listing> listing = store.list("");
  if (!listing.ok()) {
    ++outcome.errors;
  } else if (listing->files.size() != files().size()) {
    ++outcome.wrong;
  }
  const auto queue = store.open_queue({.depth = 2}).take();
  std::vector<std::string> outs;
  std::vector<CollectingVisitor> visitors(files().size());
  std::vector<Read> batch;
  for (const auto& [path, content] : files()) outs.emplace_back(content.size(), '.');
  size_t i = 0;
  for (const auto& [path, content] : files()) {
    batch.push_back({.path = path,
                     .length = content.size(),
                     .destination = writable(outs[i]).data(),
                     .visitor = &visitors[i],
                     .to_end = true,
                     .tag = i});
    ++i;
  }
  queue->submit(batch);
  std::vector<Completion> done(2);
  for (size_t have = 0; have < batch.size();) {
    const size_t got = queue->reap(done, {});
    have += got;
    for (size_t j = 0; j < got; ++j) {
      count(done[j].status, outcome);
      if (!done[j].status.ok()) continue;
      const size_t tag = done[j].tag;
      EXPECT_EQ(visitors[tag].text(), outs[tag]) << "destination and visitor disagree";
      if (outs[tag] != files().at(std::string(batch[tag].path))) ++outcome.wrong;
    }
  }
  for (const auto& [path, content] : files()) {
    const auto whole = read_file(store, path);
    if (!whole.ok()) {
      ++outcome.errors;
    } else if (std::string(reinterpret_cast<const char*>(whole->data()), whole->size()) !=
               content) {
      ++outcome.wrong;
    }
  }
}

class EveryOperation : public testing::TestWithParam<FaultKind> {};

TEST_P(EveryOperation, IsReportedOrHarmlessAndPublishedFilesAreWhole) {
  const FaultKind kind = GetParam();
  for (uint64_t k = 1;; ++k) {
    ASSERT_LT(k, 1000u);
    const auto memory = open_for_test("memory", "");
    const auto store = make_faulty_store(*memory, {.kind = kind, .fail_at = k, .delay_ns = 1000});
    Outcome outcome;
    write_all(*store, outcome);
    const int write_errors = outcome.errors;
    // What the store below holds is whole, or was never published.
    for (const FileInfo& file : memory->list("").take().files) {
      if (kind != FaultKind::kCorrupt) {
        EXPECT_EQ(get(*memory, file.path), files().at(file.path)) << "at operation " << k;
      }
    }
    if (write_errors == 0) {
      EXPECT_EQ(memory->list("").take().files.size(), files().size());
    } else {
      write_all(*memory, outcome);
    }
    read_all(*store, outcome);
    if (store->faults() == 0) {
      EXPECT_EQ(outcome.errors + outcome.wrong, 0);
      break;  // k is past the last operation
    }
    EXPECT_EQ(store->faults(), 1u);
    switch (kind) {
      case FaultKind::kError:
      case FaultKind::kNoSpace:
      case FaultKind::kQuota:
      case FaultKind::kStale:
        EXPECT_GE(outcome.errors, 1) << "at operation " << k;
        EXPECT_EQ(outcome.wrong, 0) << "at operation " << k;
        break;
      case FaultKind::kShort:
      case FaultKind::kVanish:
        EXPECT_GE(outcome.errors + outcome.wrong, 1) << "at operation " << k;
        break;
      case FaultKind::kDelay:
        EXPECT_EQ(outcome.errors + outcome.wrong, 0) << "at operation " << k;
        break;
      case FaultKind::kCorrupt:
        EXPECT_EQ(outcome.errors, 0) << "at operation " << k;
        break;
      case FaultKind::kKill:
        FAIL() << "it ends the process";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryOperation,
                         testing::Values(FaultKind::kError, FaultKind::kShort, FaultKind::kDelay,
                                         FaultKind::kCorrupt, FaultKind::kVanish,
                                         FaultKind::kNoSpace, FaultKind::kQuota,
                                         FaultKind::kStale));

TEST(FaultyStore, EndsTheProcessBeforeAnOperation) {
  const auto memory = open_for_test("memory", "");
  put(*memory, "f", "x");
  const auto die = [&] {
    const auto store = make_faulty_store(*memory, {.kind = FaultKind::kKill, .fail_at = 2});
    store->stat("f").ignore("the first goes well");
    store->stat("f").ignore("the second is the last thing it does");
  };
  EXPECT_EXIT(die(), testing::ExitedWithCode(137), "");
}

TEST(FaultyStore, CorruptsExactlyOneByteOfARead) {
  const auto memory = open_for_test("memory", "");
  const std::string content = random_text(100'000);
  put(*memory, "f", content);
  const auto store = make_faulty_store(*memory, {.kind = FaultKind::kCorrupt, .every = 1});
  const auto queue = store->open_queue({}).take();
  CollectingVisitor visitor;
  std::string out(content.size(), '.');
  const Completion done = read_one(*queue, {.path = "f",
                                            .length = content.size(),
                                            .destination = writable(out).data(),
                                            .visitor = &visitor});
  EXPECT_TRUE(done.status.ok());
  int differences = 0;
  for (size_t i = 0; i < content.size(); ++i) differences += out[i] != content[i] ? 1 : 0;
  EXPECT_EQ(differences, 1);
  EXPECT_EQ(visitor.text(), out);
}

TEST(FaultyStore, TheSameSeedFailsTheSameOperations) {
  const auto failures = [](uint64_t seed) {
    const auto memory = open_for_test("memory", "");
    put(*memory, "f", "x");
    const auto store = make_faulty_store(*memory, {.chance = 0.3, .seed = seed});
    std::string out;
    for (int i = 0; i < 200; ++i) out += store->stat("f").ok() ? '.' : 'F';
    return out;
  };
  EXPECT_EQ(failures(1), failures(1));
  EXPECT_NE(failures(1), failures(2));
  const std::string some = failures(1);
  EXPECT_NEAR(static_cast<double>(std::count(some.begin(), some.end(), 'F')), 60, 25);
}

TEST(FaultyStore, ADelayedReadHoldsUpOnlyItself) {
  const auto memory = open_for_test("memory", "");
  put(*memory, "f", "x");
  const auto store =
      make_faulty_store(*memory, {.kind = FaultKind::kDelay, .fail_at = 1, .delay_ns = 50'000'000});
  const auto queue = store->open_queue({}).take();
  std::vector<Read> batch;
  for (uint64_t i = 0; i < 5; ++i) batch.push_back({.path = "f", .length = 1, .tag = i});
  queue->submit(batch);
  std::vector<uint64_t> order;
  int64_t slowest_ns = 0;
  while (order.size() < 5) {
    std::vector<Completion> done(5);
    const size_t got = queue->reap(done, {});
    for (size_t i = 0; i < got; ++i) {
      order.push_back(done[i].tag);
      slowest_ns = std::max(slowest_ns, done[i].ended_ns - done[i].started_ns);
    }
  }
  EXPECT_EQ(order.back(), 0u);
  EXPECT_GE(slowest_ns, 50'000'000);
}

}  // namespace
}  // namespace forebay::storage
