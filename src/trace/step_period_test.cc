#include "trace/step_period.h"

#include <gtest/gtest.h>

#include "trace/recorder.h"
#include "trace/testing_memory.h"

namespace forebay::trace {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(StepPeriod, IsFromStepToStepAfterTheFirstOnes) {
  MemoryFile file;
  Recorder recorder(file.writer(), {.host = "a", .process = "p", .pid = 1});
  const TrackId slow = recorder.track(TrackKind::kThread, "slow");
  const TrackId fast = recorder.track(TrackKind::kThread, "fast");
  const TrackId few = recorder.track(TrackKind::kThread, "few");
  const NameId step = recorder.name("step", Category::kStep);
  const NameId other = recorder.name("epoch", Category::kStep);
  const NameId read = recorder.name("read", Category::kRead);
  // Ten steps: two warm up, each 100 ms; then 30 ms on one track, 10 ms on the other.
  for (const auto& [track, period] : {std::pair{slow, 30}, std::pair{fast, 10}}) {
    int64_t at = 1;
    for (int i = 0; i < 10; ++i) {
      recorder.span(track, step, at, at + 5 * kMs);
      recorder.span(track, read, at + kMs, at + 2 * kMs);
      at += (i < 2 ? 100 : period) * kMs;
    }
    recorder.span(track, other, 1, at);
  }
  recorder.span(few, step, 1, 2);
  recorder.span(few, step, 900 * kMs, 901 * kMs);
  ASSERT_TRUE(recorder.finish().ok());
  const auto found = step_period(file.load());
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->seconds, 0.020, 1e-9);
  EXPECT_EQ(found->tracks, 2);
  EXPECT_EQ(found->steps, 20u);
}

TEST(StepPeriod, IsNothingWithoutSteps) {
  MemoryFile file;
  Recorder recorder(file.writer(), {.host = "a", .process = "p", .pid = 1});
  recorder.span(recorder.track(TrackKind::kThread, "t"), recorder.name("read", Category::kRead), 1,
                2);
  ASSERT_TRUE(recorder.finish().ok());
  EXPECT_FALSE(step_period(file.load()));
}

}  // namespace
}  // namespace forebay::trace
