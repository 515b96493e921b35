#include "trace/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <thread>
#include <vector>

#include "trace/facts.h"
#include "trace/recording.h"
#include "trace/testing_memory.h"

namespace forebay::trace {
namespace {

RecorderOptions options() {
  return {.host = "alpha", .process = "forebay run", .pid = 42, .rank = 3};
}

TEST(Recorder, KeepsSpansAndCounters) {
  MemoryFile file;
  Recorder recorder(file.writer(), options());
  const TrackId track = recorder.track(TrackKind::kDevice, "accelerator", 0);
  const NameId wait = recorder.name("wait", Category::kDataWait);
  const NameId depth = recorder.name("ready", Category::kUsage, EventKind::kCounter);
  const KeyId step = recorder.key(key::kStep);
  recorder.span(track, wait, 10, 20, {{step, 3}});
  recorder.counter(track, depth, 30, 1.5);
  recorder.counter(track, depth, 31, std::nan(""));
  recorder.span(track, wait, 50, 40);  // ends before it starts
  ASSERT_TRUE(recorder.finish().ok());
  EXPECT_EQ(recorder.recorded(), 3u);
  EXPECT_EQ(recorder.dropped(), 1u);

  const Recording recording = file.load();
  ASSERT_EQ(recording.size(), 3u);
  const TrackId read = recording.track(0);
  EXPECT_EQ(recording.track_path(read), "alpha / forebay run 42 / accelerator 0");
  EXPECT_EQ(recording.dictionary().tracks[recording.ancestor(read, TrackKind::kProcess)].rank, 3);
  EXPECT_EQ(recording.duration(0), 10);
  EXPECT_EQ(recording.name(0).category, Category::kDataWait);
  EXPECT_EQ(recording.column(*recording.find_key(key::kStep, ArgumentType::kInteger), read)[0], 3);
  EXPECT_EQ(
      real_value(recording.column(*recording.find_key(key::kValue, ArgumentType::kReal), read)[1]),
      1.5);
  EXPECT_EQ(recording.duration(2), 0);
  EXPECT_EQ(recording.fact(fact::kDropped), "1");
  EXPECT_EQ(recording.files()[0].clock.size(), 1u);
}

TEST(Recorder, GivesTheSameThingOneNumber) {
  MemoryFile file;
  Recorder recorder(file.writer(), options());
  EXPECT_EQ(recorder.name("read", Category::kRead), recorder.name("read", Category::kRead));
  EXPECT_NE(recorder.name("read", Category::kRead), recorder.name("read", Category::kOther));
  EXPECT_EQ(recorder.track(TrackKind::kThread, "a"), recorder.track(TrackKind::kThread, "a"));
  EXPECT_NE(recorder.track(TrackKind::kThread, "a"), recorder.track(TrackKind::kThread, "b"));
  ASSERT_TRUE(recorder.finish().ok());
}

TEST(Recorder, CountsWhatDoesNotFit) {
  MemoryFile file;
  RecorderOptions small = options();
  small.waiting_max = 0;
  Recorder recorder(file.writer(), small);
  const TrackId track = recorder.track(TrackKind::kThread, "main");
  const NameId name = recorder.name("read", Category::kRead);
  for (int i = 0; i < 5; ++i) recorder.span(track, name, i, i + 1);
  ASSERT_TRUE(recorder.finish().ok());
  EXPECT_EQ(recorder.dropped(), 5u);
  EXPECT_EQ(file.load().fact(fact::kDropped), "5");
}

TEST(Recorder, LosesNothingBetweenThreads) {
  constexpr int kThreads = 8, kEach = 20'000;
  MemoryFile file;
  Recorder recorder(file.writer(), options());
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&recorder, thread] {
        const TrackId track = recorder.track(TrackKind::kThread, "worker", thread);
        const NameId name = recorder.name("item", Category::kPrepare);
        const KeyId path = recorder.key(key::kFile, ArgumentType::kText);
        for (int i = 0; i < kEach; ++i) {
          // Definitions go on while events are written.
          const TextId text = recorder.text("file " + std::to_string(i % 997));
          recorder.span(track, name, i, i + 1, {{path, text}});
        }
      });
    }
  }
  ASSERT_TRUE(recorder.finish().ok());
  EXPECT_EQ(recorder.dropped(), 0u);
  const Recording recording = file.load();
  ASSERT_EQ(recording.size(), size_t{kThreads} * kEach);
  const KeyId path = *recording.find_key(key::kFile, ArgumentType::kText);
  for (size_t row = 0; row < recording.size(); ++row) {
    const TrackId track = recording.track(row);
    const size_t i = row - recording.rows(track).first;
    ASSERT_EQ(recording.start(row), static_cast<int64_t>(i));
    const auto text = static_cast<TextId>(recording.column(path, track)[i]);
    ASSERT_EQ(recording.dictionary().texts[text], "file " + std::to_string(i % 997));
  }
}

}  // namespace
}  // namespace forebay::trace
