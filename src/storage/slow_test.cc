// The slow store: its limits are arithmetic, tested without waiting; its queue waits, tested
// briefly.
#include "storage/slow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "storage/store_test_support.h"

namespace forebay::storage {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(SlowModel, LatenciesOverlap) {
  SlowModel model({.latency_ns = 5 * kMs});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(model.admit(100, 1).due_ns, 100 + 5 * kMs);
}

TEST(SlowModel, BandwidthIsSharedInOrder) {
  SlowModel model({.latency_ns = kMs, .bytes_per_second = 1e9});
  EXPECT_EQ(model.admit(0, 1'000'000).due_ns, 2 * kMs);  // 1 ms in the pipe, 1 ms on the way
  EXPECT_EQ(model.admit(0, 3'000'000).due_ns, 5 * kMs);
  EXPECT_EQ(model.admit(0, 0).due_ns, 5 * kMs);
  EXPECT_EQ(model.admit(100 * kMs, 1'000'000).due_ns, 102 * kMs);  // an idle pipe saves nothing up
}

TEST(SlowModel, OperationsPerSecondSpaceStarts) {
  SlowModel model({.operations_per_second = 500});
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(model.admit(0, 1).start_ns, i * 2 * kMs);
  EXPECT_EQ(model.admit(50 * kMs, 1).start_ns, 50 * kMs);
}

TEST(SlowModel, ConcurrencyMakesTheRestWait) {
  SlowModel model({.latency_ns = 10 * kMs, .concurrency = 2});
  EXPECT_EQ(model.admit(0, 1).due_ns, 10 * kMs);
  EXPECT_EQ(model.admit(0, 1).due_ns, 10 * kMs);
  EXPECT_EQ(model.admit(0, 1).due_ns, 20 * kMs);
  EXPECT_EQ(model.admit(15 * kMs, 1).due_ns, 25 * kMs);
}

std::vector<int64_t> latencies(const SlowOptions& options) {
  SlowModel model(options);
  std::vector<int64_t> out;
  for (int i = 0; i < 20'000; ++i) out.push_back(model.admit(0, 1).due_ns);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(SlowModel, DistributionsHaveTheStatedShape) {
  const auto uniform = latencies(
      {.latency_ns = 5 * kMs, .shape = LatencyShape::kUniform, .jitter_ns = 2 * kMs, .seed = 3});
  EXPECT_GE(uniform.front(), 3 * kMs);
  EXPECT_LE(uniform.back(), 7 * kMs);
  EXPECT_NEAR(static_cast<double>(uniform[10'000]), 5e6, 1e5);

  const auto exponential = latencies(
      {.latency_ns = 5 * kMs, .shape = LatencyShape::kExponential, .jitter_ns = kMs, .seed = 3});
  EXPECT_GE(exponential.front(), 5 * kMs);
  EXPECT_NEAR(static_cast<double>(exponential[10'000]), 5e6 + 0.693e6, 5e4);

  const auto lognormal = latencies(
      {.latency_ns = 5 * kMs, .shape = LatencyShape::kLognormal, .p99_ns = 50 * kMs, .seed = 3});
  EXPECT_NEAR(static_cast<double>(lognormal[10'000]), 5e6, 2e5);
  EXPECT_NEAR(static_cast<double>(lognormal[19'800]), 50e6, 8e6);
}

TEST(SlowModel, TheSameSeedGivesTheSameLatencies) {
  const SlowOptions options{
      .latency_ns = kMs, .shape = LatencyShape::kExponential, .jitter_ns = kMs, .seed = 7};
  EXPECT_EQ(latencies(options), latencies(options));
  SlowOptions other = options;
  other.seed = 8;
  EXPECT_NE(latencies(options), latencies(other));
}

int64_t read_time_ns(Store& store, int count, int depth, std::vector<Completion>& done) {
  const auto reads = store.open_queue({.depth = depth}).take();
  const Read read{.path = "f", .length = 1};
  const std::vector<Read> batch(static_cast<size_t>(count), read);
  const int64_t start = base::monotonic_clock().now_ns();
  reads->submit(batch);
  done.resize(batch.size());
  for (size_t have = 0; have < done.size();) have += reads->reap(std::span(done).subspan(have), {});
  return base::monotonic_clock().now_ns() - start;
}

TEST(SlowStore, ReadsInFlightWaitTogetherAndDepthLimitsThem) {
  auto memory = open_for_test("memory", "");
  put(*memory, "f", "x");
  const auto store = make_slow_store(std::move(memory), {.latency_ns = 10 * kMs});
  std::vector<Completion> done;
  const int64_t together = read_time_ns(*store, 8, 8, done);
  EXPECT_GE(together, 10 * kMs);
  EXPECT_LT(together, 80 * kMs);  // one behind the other they would take this long
  for (const Completion& one : done) {
    EXPECT_TRUE(one.status.ok());
    EXPECT_GE(one.ended_ns - one.started_ns, 10 * kMs);
  }
  EXPECT_GE(read_time_ns(*store, 8, 2, done), 40 * kMs);
}

TEST(SlowModel, NoLimitMakesATimeThatCannotBeTold) {
  SlowModel thin({.bytes_per_second = 1});
  int64_t due = 0;
  for (int i = 0; i < 5; ++i) {
    const int64_t next = thin.admit(0, uint64_t{1} << 60).due_ns;
    EXPECT_GE(next, due);
    due = next;
  }
  SlowModel wild({.latency_ns = 1, .shape = LatencyShape::kLognormal, .p99_ns = 3'600'000 * kMs});
  for (int i = 0; i < 100'000; ++i) {
    due = wild.admit(0, 0).due_ns;
    ASSERT_GE(due, 0);
    ASSERT_LE(due, 24 * 3'600'000 * kMs);
  }
}

TEST(SlowStore, StopAndDestructionDoNotWaitForLatencies) {
  auto memory = open_for_test("memory", "");
  put(*memory, "f", "x");
  const auto store = make_slow_store(std::move(memory), {.latency_ns = 3'600'000 * kMs});
  const auto reads = store->open_queue({}).take();
  const Read read{.path = "f", .length = 1};
  reads->submit({&read, 1});
  Completion done;
  {
    std::jthread waker([&] { reads->wake(); });
    EXPECT_EQ(reads->reap({&done, 1}, {}), 0u);
  }
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_EQ(reads->reap({&done, 1}, stop.get_token()), 0u);
}

}  // namespace
}  // namespace forebay::storage
