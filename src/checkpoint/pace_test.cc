// A copy keeps below its bandwidth and gives way to a loop that waits, but not for ever.
#include "checkpoint/pace.h"

#include <gtest/gtest.h>

#include "base/waiting.h"

namespace forebay::checkpoint {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint64_t kMega = 1'000'000;

TEST(Pace, WithoutABandwidthNothingWaits) {
  base::ManualClock clock;
  Pace pace(clock, 0);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pace.admit(1000 * kMega, {}).ok());
  EXPECT_EQ(clock.now_ns(), 0);
}

TEST(Pace, ManyChunksTakeTheTimeOfTheBandwidth) {
  base::ManualClock clock;
  Pace pace(clock, 10e6);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(pace.admit(kMega, {}).ok());
  // 50 MB at 10 MB/s, of which a tenth of a second's worth may go at once.
  EXPECT_EQ(clock.now_ns(), 4900 * kMs);
}

TEST(Pace, APauseIsNotMadeUpForLater) {
  base::ManualClock clock;
  Pace pace(clock, 10e6);
  ASSERT_TRUE(pace.admit(kMega, {}).ok());
  clock.advance_ns(60'000 * kMs);
  const int64_t begin_ns = clock.now_ns();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(pace.admit(kMega, {}).ok());
  EXPECT_EQ(clock.now_ns() - begin_ns, 4900 * kMs);
}

TEST(Pace, ALoopThatWaitsIsGivenWayForSoLongAChunk) {
  base::ManualClock clock;
  Pace pace(clock, 0);
  {
    const base::Waiting waiting;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(pace.admit(1, {}).ok());
    EXPECT_EQ(clock.now_ns(), 150 * kMs);
  }
  ASSERT_TRUE(pace.admit(1, {}).ok());
  EXPECT_EQ(clock.now_ns(), 150 * kMs);
}

TEST(Pace, AStopEndsIt) {
  base::ManualClock clock;
  std::stop_source stop;
  stop.request_stop();
  Pace pace(clock, 1);
  const Status stopped = pace.admit(kMega, stop.get_token());
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace forebay::checkpoint
