// How many events are kept in a flood: the budget comes down to the limit, and back when it is
// over.
#include "record/thinning.h"

#include <gtest/gtest.h>

namespace forebay::record {
namespace {

constexpr int64_t kPeriod = 10'000'000;

TEST(Thinning, KeepsItsBudgetBelowTheLimit) {
  Thinning thinning(200'000);
  EXPECT_EQ(thinning.window_budget(), 1'677u);
  for (int i = 0; i < 100; ++i) thinning.update(1'900, kPeriod);
  EXPECT_EQ(thinning.window_budget(), 1'677u);
}

TEST(Thinning, SharesTheLimitOutAmongThreadsAndLetsGoSlowly) {
  Thinning thinning(200'000);
  thinning.update(8'000, kPeriod);  // four threads, each at the limit
  thinning.update(4'000, kPeriod);
  EXPECT_EQ(thinning.window_budget(), 419u);
  thinning.update(1'999, kPeriod);  // steady
  for (int i = 0; i < 7; ++i) thinning.update(10, kPeriod);
  EXPECT_EQ(thinning.window_budget(), 419u);
  for (int i = 0; i < 100; ++i) thinning.update(10, kPeriod);
  EXPECT_EQ(thinning.window_budget(), 1'677u);
}

TEST(Thinning, ThinsLongerCallsWhenShortOnesAreNotEnough) {
  Thinning thinning(1'000);
  const uint64_t below_ns = thinning.below_ns();
  for (int i = 0; i < 200; ++i) thinning.update(100'000, kPeriod);
  EXPECT_EQ(thinning.window_budget(), 1u);
  EXPECT_GT(thinning.below_ns(), below_ns);
  for (int i = 0; i < 1'000; ++i) thinning.update(0, kPeriod);
  EXPECT_EQ(thinning.window_budget(), 8u);
  EXPECT_EQ(thinning.below_ns(), below_ns);
}

}  // namespace
}  // namespace forebay::record
