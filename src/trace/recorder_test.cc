#include "trace/recorder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <thread>
#include <vector>

#include "trace/span.h"

namespace forebay::trace {
namespace {

std::vector<Event> events_of(const Recorder& recorder) {
  std::vector<Event> events;
  recorder.visit([&](const Event& event) { events.push_back(event); });
  return events;
}

TEST(Recorder, KeepsSpansAndCountersInOrder) {
  Recorder recorder(10);
  const int track = recorder.track("accelerator 0");
  const int wait = recorder.name("wait");
  recorder.span(track, wait, 10, 20, 3);
  recorder.counter(track, wait, 30, 1.5);
  recorder.span(track, wait, 50, 40);  // ends before it starts
  const auto events = events_of(recorder);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].start_ns, 10);
  EXPECT_EQ(events[0].end_ns, 20);
  EXPECT_EQ(events[0].value, 3);
  EXPECT_EQ(events[0].is_counter, 0u);
  EXPECT_EQ(events[1].is_counter, 1u);
  EXPECT_EQ(events[1].counter_value, 1.5);
  EXPECT_EQ(events[2].end_ns, 50);
  EXPECT_EQ(events[2].value, -1);
}

TEST(Recorder, InternsTracksAndNames) {
  Recorder recorder(1);
  EXPECT_EQ(recorder.name("read"), recorder.name(std::string("read")));
  EXPECT_NE(recorder.name("read"), recorder.name("decode"));
  recorder.track("a");
  recorder.track("b");
  recorder.track("a");
  EXPECT_EQ(recorder.tracks(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(recorder.names(), (std::vector<std::string>{"read", "decode"}));
}

TEST(Recorder, BoundsTheNumberOfNames) {
  Recorder recorder(1);
  for (size_t i = 0; i < Recorder::kTextsMax + 100; ++i) recorder.name(std::to_string(i));
  EXPECT_EQ(recorder.names().size(), Recorder::kTextsMax);
  EXPECT_EQ(recorder.names().back(), "(other)");
  EXPECT_EQ(recorder.name("one more"), static_cast<int>(Recorder::kTextsMax) - 1);
  EXPECT_EQ(recorder.name("7"), 7);
}

TEST(Recorder, CountsWhatDoesNotFit) {
  Recorder recorder(1000);
  for (int i = 0; i < 1500; ++i) recorder.span(0, 0, i, i + 1);
  EXPECT_EQ(recorder.recorded(), 1000u);
  EXPECT_EQ(recorder.dropped(), 500u);
  EXPECT_EQ(events_of(recorder).size(), 1000u);
}

TEST(Recorder, DropsEverythingWithoutRoom) {
  Recorder recorder(0);
  recorder.span(0, 0, 1, 2);
  EXPECT_EQ(recorder.dropped(), 1u);
  EXPECT_TRUE(events_of(recorder).empty());
}

TEST(Recorder, CountsCountersThatAreNotNumbersAsDropped) {
  Recorder recorder(10);
  recorder.counter(0, 0, 1, std::nan(""));
  recorder.counter(0, 0, 1, std::numeric_limits<double>::infinity());
  EXPECT_EQ(recorder.dropped(), 2u);
  EXPECT_EQ(recorder.recorded(), 0u);
}

TEST(Recorder, LosesNothingBetweenThreadsAndKeepsEachThreadsOrder) {
  constexpr int kThreads = 20, kEach = 3000;
  Recorder recorder(kThreads * kEach * 2);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&recorder, t] {
        const int track = recorder.track("thread " + std::to_string(t));
        for (int i = 0; i < kEach; ++i) recorder.span(track, recorder.name("work"), i, i + 1, t);
      });
    }
    recorder.visit([](const Event& event) { ASSERT_EQ(event.end_ns, event.start_ns + 1); });
  }
  EXPECT_EQ(recorder.dropped(), 0u);
  std::map<int64_t, int64_t> next_of_thread;
  for (const Event& event : events_of(recorder)) {
    EXPECT_EQ(event.start_ns, next_of_thread[event.value]++);
  }
  ASSERT_EQ(next_of_thread.size(), static_cast<size_t>(kThreads));
  for (const auto& [thread, next] : next_of_thread) EXPECT_EQ(next, kEach) << thread;
}

TEST(Recorder, UsesSevenEighthsOfItsRoomHoweverManyThreadsRecord) {
  constexpr size_t kRoom = 4096;
  Recorder recorder(kRoom);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 16; ++t) {
      threads.emplace_back([&recorder, t] {
        for (int i = 0; i < (t == 0 ? 10000 : 1); ++i) recorder.span(0, 0, i, i);
      });
    }
  }
  EXPECT_EQ(recorder.recorded() + recorder.dropped(), 10015u);
  EXPECT_GE(recorder.recorded(), kRoom - kRoom / 8);
  EXPECT_LE(recorder.recorded(), kRoom);
}

TEST(ScopedSpan, RecordsItsLifetimeAndValue) {
  base::ManualClock clock;
  Recorder recorder(4);
  {
    ScopedSpan span(&recorder, clock, 1, 2);
    clock.advance_ns(70);
    span.set_value(9);
  }
  const auto events = events_of(recorder);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].end_ns - events[0].start_ns, 70);
  EXPECT_EQ(events[0].value, 9);
  EXPECT_EQ(events[0].name, 2);
}

TEST(ScopedSpan, DoesNotReadTheClockWithoutARecorder) {
  class CountingClock : public base::ManualClock {
   public:
    int64_t now_ns() const override { return ++reads; }
    mutable int64_t reads = 0;
  };
  CountingClock clock;
  {
    const ScopedSpan span(nullptr, clock, 0, 0);
    count(nullptr, 0, 0, 1, 1.0);
  }
  EXPECT_EQ(clock.reads, 0);
}

}  // namespace
}  // namespace forebay::trace
