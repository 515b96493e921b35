// Iterations: marks win; without them they are found to 1 % although nobody says how many there
// are, events are lost and inserted, steps vary, checkpoints and epochs come in between. Where
// there is no pattern none is invented.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>

#include "base/median.h"
#include "explain/explain.h"
#include "explain/period.h"
#include "explain/program_for_test.h"
#include "explain/suffix_automaton.h"

namespace forebay::explain {
namespace {

using base::median_of;
using testing::ElementsAre;
using testing::HasSubstr;
using trace::Category;
using Thread = ProgramForTest::Thread;
constexpr int64_t kMs = 1'000'000, kUs = 1'000;

struct Loop {
  int steps = 60;
  int files = 4;  // that a step reads
  int64_t read_ns = 2 * kMs, compute_ns = 20 * kMs;
  double jitter = 0.05;
  double lost = 0, inserted = 0;  // shares of events
  int warm_up = 0;                // first steps that compute ten times as long
  int checkpoint_every = 0;
  int epoch = 0;  // steps of one; each begins with a second of listing
  bool has_imports = false;
};

struct Played {
  trace::Recording recording;
  std::vector<int64_t> lengths;  // the truth
};

Played play(const Loop& loop, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(1.0, loop.jitter);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto varied = [&](int64_t ns) {
    return static_cast<int64_t>(static_cast<double>(ns) * std::max(0.2, normal(random)));
  };
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  const auto is_lost = [&] { return uniform(random) < loop.lost; };
  const auto noise = [&] {
    if (uniform(random) < loop.inserted) {
      program.call(main, "mmap", Category::kMetadata, 3 * kUs);
    }
  };
  if (loop.has_imports) {
    for (int i = 0; i < 200; ++i) {
      program.open(main, "/usr/lib/python3/m" + std::to_string(i) + ".py", 20 * kUs);
      program.read(main, "/usr/lib/python3/m" + std::to_string(i) + ".py", 5000, 10 * kUs);
      program.run(main, varied(500 * kUs));
    }
  }
  Played played;
  for (int step = 0; step < loop.steps; ++step) {
    const int64_t begin = main.now_ns;
    if (loop.epoch > 0 && step % loop.epoch == 0) {
      for (int i = 0; i < 10; ++i) program.call(main, "getdents64", Category::kMetadata, 100 * kMs);
    }
    for (int file = 0; file < loop.files; ++file) {
      const std::string path = "/d/s" + std::to_string(random() % 1000) + ".npz";
      is_lost() ? (main.now_ns += 20 * kUs, void()) : program.open(main, path, 20 * kUs);
      noise();
      is_lost() ? (main.now_ns += loop.read_ns, void())
                : program.read(main, path, 150'000, varied(loop.read_ns));
      program.run(main, 100 * kUs);
      if (!is_lost()) program.call(main, "close", Category::kMetadata, 5 * kUs);
      noise();
    }
    program.run(main, varied(loop.compute_ns) * (step < loop.warm_up ? 10 : 1));
    if (loop.checkpoint_every > 0 && (step + 1) % loop.checkpoint_every == 0) {
      program.write(main, "/out/model.pt", 100 << 20, 80 * kMs);
      program.fsync(main, "/out/model.pt", 30 * kMs);
    }
    played.lengths.push_back(main.now_ns - begin);
  }
  program.call(main, "munmap", Category::kMetadata, 5 * kUs);
  played.recording = program.finish();
  return played;
}

uint64_t base_seed() {
  const char* text = std::getenv("FOREBAY_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

void expect_found(const Loop& loop, const std::string& what, int tolerated_count = 1) {
  for (uint64_t seed = base_seed(); seed < base_seed() + 5; ++seed) {
    SCOPED_TRACE(what + ", FOREBAY_SEED=" + std::to_string(seed));
    Played played = play(loop, seed);
    auto result = explain(played.recording, {});
    ASSERT_TRUE(result.ok());
    const Iterations& found = result->explanation.iterations;
    ASSERT_TRUE(found.is_found) << found.reason;
    EXPECT_NEAR(static_cast<double>(found.count), loop.steps, tolerated_count) << found.method;
    const auto truth = static_cast<double>(median_of(played.lengths));
    EXPECT_NEAR(static_cast<double>(found.p50_ns), truth, 0.01 * truth) << found.method;
    EXPECT_GE(*found.confidence, 0.5);
    EXPECT_LE(*found.confidence, 1.0);
  }
}

TEST(Iterations, AreFoundInAPlainLoop) {
  expect_found({}, "plain");
}
TEST(Iterations, AreFoundWhateverTheirNumber) {
  for (const int steps : {7, 23, 211, 1000}) expect_found({.steps = steps}, std::to_string(steps));
}
TEST(Iterations, AreFoundWhenReadingDominates) {
  expect_found({.files = 8, .read_ns = 10 * kMs, .compute_ns = 8 * kMs}, "fetch-bound");
}
TEST(Iterations, AreFoundWithOneFileAStep) {
  expect_found({.files = 1}, "one file");
}
TEST(Iterations, AreFoundWithLostEvents) {
  expect_found({.lost = 0.03}, "lost");
}
TEST(Iterations, AreFoundWithInsertedEvents) {
  expect_found({.inserted = 0.1}, "inserted");
}
TEST(Iterations, AreFoundWithStrongJitter) {
  expect_found({.jitter = 0.2}, "jitter");
}
TEST(Iterations, AreFoundAfterAWarmUp) {
  expect_found({.warm_up = 2}, "warm-up", 3);
}
TEST(Iterations, AreFoundBetweenCheckpoints) {
  expect_found({.steps = 100, .checkpoint_every = 10}, "checkpoints");
}
TEST(Iterations, AreFoundAcrossEpochs) {
  expect_found({.steps = 80, .epoch = 20}, "epochs", 4);
}
TEST(Iterations, AreFoundAfterImports) {
  expect_found({.has_imports = true}, "imports", 2);
}

TEST(Iterations, SlowOnesAreExplainedApart) {
  Played played = play({.steps = 100, .checkpoint_every = 10}, 3);
  auto result = explain(played.recording, {});
  ASSERT_TRUE(result.ok());
  const auto& slow = result->explanation.slow;
  const auto checkpoint = std::find_if(
      slow.begin(), slow.end(), [](const SlowKind& kind) { return kind.kind == "checkpoint"; });
  ASSERT_NE(checkpoint, slow.end());
  EXPECT_EQ(checkpoint->count, 10u);
  EXPECT_EQ(checkpoint->every, 10u);
  EXPECT_NEAR(static_cast<double>(checkpoint->excess[Part::kCheckpoint]), 110e6, 1e6);
}

TEST(Iterations, EpochStartsAreExplainedApart) {
  Played played = play({.steps = 80, .epoch = 20}, 3);
  auto result = explain(played.recording, {});
  ASSERT_TRUE(result.ok());
  const auto& slow = result->explanation.slow;
  const auto epoch = std::find_if(slow.begin(), slow.end(),
                                  [](const SlowKind& kind) { return kind.kind == "epoch start"; });
  ASSERT_NE(epoch, slow.end());
  EXPECT_GE(epoch->count, 3u);
  EXPECT_NEAR(static_cast<double>(epoch->excess[Part::kFetchStall]), 1e9, 2e7);
}

TEST(Iterations, AreNotInventedInNoise) {
  for (uint64_t seed = base_seed(); seed < base_seed() + 5; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    ProgramForTest program;
    Thread main = program.thread(1, 1);
    constexpr std::array kNames{"a", "b", "c", "d", "e", "f", "g", "h"};
    for (int i = 0; i < 3000; ++i) {
      // Heavy tails and no order.
      const double ns = std::exp(std::normal_distribution<double>(11, 2)(random));
      program.call(main, kNames[random() % kNames.size()], Category::kMetadata,
                   static_cast<int64_t>(ns));
      program.run(main,
                  static_cast<int64_t>(std::exp(std::normal_distribution<double>(12, 2)(random))));
    }
    trace::Recording recording = program.finish();
    auto result = explain(recording, {});
    ASSERT_TRUE(result.ok());
    EXPECT_FALSE(result->explanation.iterations.is_found)
        << result->explanation.iterations.method << " "
        << *result->explanation.iterations.confidence;
    EXPECT_FALSE(result->explanation.iterations.reason.empty());
    // The breakdown stands without them.
    EXPECT_GT(result->explanation.whole.total_ns(), 0);
  }
}

TEST(Iterations, MarksWinAndTheSearchIsComparedWithThem) {
  ProgramForTest program;
  Thread main = program.thread(1, 1);
  for (int i = 0; i < 50; ++i) {
    program.range(main, "ProfilerStep#" + std::to_string(i + 5), Category::kStep, [&] {
      for (int k = 0; k < 3; ++k) program.read(main, "/d/x.npy", 1 << 16, kMs);
      program.run(main, 10 * kMs);
    });
  }
  trace::Recording recording = program.finish();
  auto result = explain(recording, {});
  ASSERT_TRUE(result.ok());
  const Explanation& found = result->explanation;
  EXPECT_THAT(found.iterations.method, HasSubstr("ProfilerStep"));
  EXPECT_EQ(found.iterations.count, 50u);
  EXPECT_EQ(found.drivers[0].iterations[0].number, 5);
  EXPECT_EQ(found.iterations.p50_ns, 13 * kMs);
  ASSERT_TRUE(found.iterations.error_against_marks.has_value());
  EXPECT_LE(*found.iterations.error_against_marks, 0.01);
  EXPECT_NEAR(static_cast<double>(*found.iterations.count_without_marks), 50, 1);
}

TEST(Iterations, WhatPrecedesAMarkedStepBelongsToIt) {
  ProgramForTest program;
  Thread main = program.thread(1, 1);
  for (int i = 0; i < 30; ++i) {
    program.read(main, "/d/x.npy", 1 << 16, 30 * kMs);
    program.range(main, "train", Category::kAnnotation, [&] { program.run(main, 10 * kMs); });
  }
  trace::Recording recording = program.finish();
  auto result = explain(recording, {"train", "", ""});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->explanation.iterations.count, 30u);
  EXPECT_NEAR(result->explanation.steps.share(Part::kFetchStall), 0.75, 0.001);
}

TEST(Iterations, InstantsAreBoundariesAndTheRestIsPartial) {
  ProgramForTest program;
  Thread main = program.thread(1, 1);
  for (int i = 0; i < 20; ++i) {
    program.writer().add(
        {main.track, program.writer().name("step", Category::kStep, trace::EventKind::kInstant),
         main.now_ns, 0},
        {program.number("step", i)});
    program.read(main, "/d/x", 1 << 16, 5 * kMs);
    program.run(main, i == 19 ? 2 * kMs : 15 * kMs);
    program.read(main, "/d/x", 1 << 16, kMs);
  }
  trace::Recording recording = program.finish();
  auto result = explain(recording, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->explanation.iterations.count, 19u);
  EXPECT_EQ(result->explanation.iterations.partial, 1u);
}

TEST(Iterations, AMarkThatIsNotThereIsAnError) {
  Played played = play({}, 1);
  const auto result = explain(played.recording, {"nope", "", ""});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("'nope'"));
}

TEST(Iterations, OfLoadersCountWhenTrainingShowsNone) {
  ProgramForTest program;
  Thread main = program.thread(1, 1), worker = program.thread(1, 2);
  program.open(main, "/x", 10 * kUs);
  for (int i = 0; i < 80; ++i) {
    for (int k = 0; k < 4; ++k) program.read(worker, "/d/a.npz", 150'000, 2 * kMs);
    program.lock(worker, 12 * kMs);
  }
  main.now_ns = worker.now_ns;
  program.open(main, "/y", 10 * kUs);
  trace::Recording recording = program.finish();
  auto result = explain(recording, {});
  ASSERT_TRUE(result.ok());
  const Iterations& found = result->explanation.iterations;
  ASSERT_TRUE(found.is_found) << found.reason;
  EXPECT_THAT(found.method, HasSubstr("helper"));
  EXPECT_NEAR(static_cast<double>(found.p50_ns), 20e6, 0.2e6);
}

TEST(Period, FindsThePeriodOfBursts) {
  std::vector<int64_t> times;
  for (int64_t i = 0; i < 200; ++i) {
    for (int64_t k = 0; k < 5; ++k) times.push_back(i * 70 * kMs + k * kMs);
  }
  const std::vector<PeriodPeak> peaks = find_periods(times);
  ASSERT_FALSE(peaks.empty());
  const double ratio = static_cast<double>(peaks[0].period_ns) / 70e6;
  EXPECT_NEAR(ratio, std::round(ratio), 0.02);
}

TEST(SuffixAutomaton, FindsTheRepeatThatTiles) {
  std::vector<uint32_t> tokens{9, 8};
  for (int i = 0; i < 30; ++i) {
    for (const uint32_t t : {1u, 2u, 3u, 4u}) tokens.push_back(t);
  }
  const SuffixAutomaton automaton(tokens);
  const std::vector<Repeat> repeats = automaton.repeats(3);
  ASSERT_FALSE(repeats.empty());
  EXPECT_EQ(repeats[0].length, 4u);
  EXPECT_GT(repeats[0].coverage, 0.9);
}

TEST(SuffixAutomaton, OccurrencesTolerateEdits) {
  const std::vector<uint32_t> pattern{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<uint32_t> tokens = pattern;
  tokens.insert(tokens.end(), {1, 2, 3, 5, 6, 7, 8});           // one lost
  tokens.insert(tokens.end(), {1, 2, 3, 4, 99, 5, 6, 7, 8});    // one inserted
  tokens.insert(tokens.end(), {1, 50, 51, 52, 53, 54, 55, 8});  // something else
  tokens.insert(tokens.end(), pattern.begin(), pattern.end());
  EXPECT_THAT(occurrences(tokens, pattern, 1), ElementsAre(0, 8, 15, 32));
  EXPECT_THAT(occurrences(tokens, pattern, 0), ElementsAre(0, 32));
}

// A batch that is there already leaves no call between two steps.
TEST(Iterations, AStepThatNeededNoWaitIsFoundByItsComputing) {
  ProgramForTest program;
  auto main = program.thread(100, 100);
  program.open(main, "/d/index", 10'000);
  int steps = 0;
  for (uint32_t i = 0; i < 120; ++i) {
    const bool is_there = i * 2654435761U % 10 < 3;  // a quarter or so, at no distance
    if (!is_there) program.lock(main, 9'000'000 + i % 5 * 1'000'000);
    program.run(main, 2'000'000);
    ++steps;
  }
  program.lock(main, 1'000'000);
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  ASSERT_TRUE(result.ok());
  const Iterations& found = result->explanation.iterations;
  ASSERT_TRUE(found.is_found) << found.reason;
  EXPECT_NEAR(static_cast<double>(found.count), steps, 2);
}

TEST(Iterations, EachFourthStepThatComputesTwiceIsOneStep) {
  ProgramForTest program;
  auto main = program.thread(100, 100);
  program.open(main, "/d/index", 10'000);
  for (int i = 0; i < 120; ++i) {
    program.lock(main, 9'000'000);
    program.run(main, i % 4 == 3 ? 4'000'000 : 2'000'000);
  }
  program.lock(main, 1'000'000);
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  ASSERT_TRUE(result.ok());
  EXPECT_LE(result->explanation.iterations.count, 121u);
}

// From step 41 on each reads six files in place of one.
TEST(Iterations, AreFoundWhereTheyChangeDuringTheRun) {
  ProgramForTest program;
  program.sample_each(10 * kMs);
  Thread main = program.thread(100, 100);
  for (int i = 0; i < 80; ++i) {
    for (int k = 0; k < (i < 40 ? 1 : 6); ++k) program.read(main, "/d/a.bin", 1 << 22, 3 * kMs);
    program.run(main, 10 * kMs + i % 5 * 200 * kUs, "tanh");
    program.lose_core(main, (i % 3) * 4 * kMs);
    program.run(main, kMs, "read_samples", "/home/u/half.py", true);
  }
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  ASSERT_TRUE(result.ok());
  const Iterations& found = result->explanation.iterations;
  ASSERT_TRUE(found.is_found) << found.reason;
  EXPECT_NEAR(static_cast<double>(found.count), 80, 1) << found.method;
}

// What a search finds of a program that was played.
Iterations found_in(ProgramForTest& program) {
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  EXPECT_TRUE(result.ok());
  return result.ok() ? result->explanation.iterations : Iterations{};
}

// A save after each 30 steps, between two of them: 60 steps, and 2 that are none.
TEST(Iterations, ASaveBetweenStepsIsNoStep) {
  for (const int shape : {0, 1, 2}) {
    SCOPED_TRACE(shape);
    ProgramForTest program;
    Thread main = program.thread(100, 100);
    std::mt19937_64 random(3);
    const auto varied = [&](int64_t ns) {
      return ns + static_cast<int64_t>(random() % 100) * ns / 1000;
    };
    for (int i = 0; i < 60; ++i) {
      for (int k = 0; k < 4; ++k) {
        const std::string path = "/d/" + std::to_string(i * 4 + k) + ".bin";
        program.open(main, path, 20 * kUs);
        program.read(main, path, 256 << 10, varied(kMs));
        program.call(main, "close", Category::kMetadata, 5 * kUs);
      }
      program.run(main, varied(30 * kMs));
      if (i % 30 != 29) continue;
      if (shape == 1) program.run(main, varied(25 * kMs));  // pickles before it opens
      program.open(main, "/ck/model.tmp", 50 * kUs);
      for (int k = 0; k < 8; ++k) {
        program.write(main, "/ck/model.tmp", 4 << 20, varied(4 * kMs));
        if (shape > 0) program.run(main, varied(4 * kMs));  // between the writes
      }
      program.fsync(main, "/ck/model.tmp", 40 * kMs);
      program.call(main, "close", Category::kMetadata, 5 * kUs);
      program.call(main, "rename", Category::kMetadata, 50 * kUs, {program.file("/ck/model.pt")});
      if (shape == 2) program.run(main, varied(28 * kMs));  // looks at what was written
    }
    program.call(main, "munmap", Category::kMetadata, 5 * kUs);
    const Iterations found = found_in(program);
    ASSERT_TRUE(found.is_found) << found.reason;
    EXPECT_EQ(found.count, 60u) << found.method;
  }
}

// Threads make batches ahead: of 60 steps some 38 had to wait, the others follow each other in runs
// of any length.
TEST(Iterations, OfThreadsThatAreOftenAheadAreAllFound) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    ProgramForTest program;
    Thread main = program.thread(100, 100);
    program.open(main, "/d/index", 10 * kUs);
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(1.0, 0.03);
    for (int i = 0; i < 60; ++i) {
      const bool is_there = i > 0 && random() % 100 < 37;
      if (!is_there)
        program.call(main, "pthread_cond_wait", Category::kLock,
                     4 * kMs + static_cast<int64_t>(random() % 8) * kMs);
      program.run(main, static_cast<int64_t>(20e6 * normal(random)));
    }
    program.call(main, "pthread_join", Category::kLock, kMs);
    const Iterations found = found_in(program);
    ASSERT_TRUE(found.is_found) << found.reason;
    EXPECT_NEAR(static_cast<double>(found.count), 60, 1) << found.method;
  }
}

// A convolutional network on the CPU: a batch is read, then its layers run with threads that meet
// at each, in waits of any number. Sixteen steps, the first of which also sets everything up.
TEST(Iterations, OfSixteenStepsOfANetworkAreFound) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    ProgramForTest program;
    Thread main = program.thread(100, 100);
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(1.0, 0.08);
    const auto varied = [&](double ns) {
      return static_cast<int64_t>(ns * std::max(0.3, normal(random)));
    };
    for (int i = 0; i < 16; ++i) {
      for (int k = 0; k < 8; ++k) {
        const std::string path = "/d/" + std::to_string(i * 8 + k) + ".npy";
        program.open(main, path, 30 * kUs);
        program.read(main, path, 128 << 10, varied(80e3));
        program.call(main, "close", Category::kMetadata, 5 * kUs);
        program.run(main, varied(300e3));
      }
      for (int layer = 0; layer < 24; ++layer) {
        program.run(main, varied(i == 0 ? 12e6 : 5e6));
        const uint64_t waits = random() % 4;  // of threads that came later
        for (uint64_t k = 0; k < waits; ++k) program.lock(main, varied(400e3));
        if (random() % 3 == 0) program.call(main, "munmap", Category::kMetadata, 20 * kUs);
      }
    }
    program.call(main, "munmap", Category::kMetadata, 5 * kUs);
    const Iterations found = found_in(program);
    ASSERT_TRUE(found.is_found) << found.reason;
    EXPECT_NEAR(static_cast<double>(found.count), 16, 0.5) << found.method;
  }
}

// Ten steps between two saves make no call: the saves are not steps, and are told as what they are.
TEST(Iterations, AreNotTheStretchesBetweenSaves) {
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  for (int i = 0; i < 10; ++i) {
    program.run(main, 180 * kMs);
    program.open(main, "/ck/ckpt.tmp", 20 * kUs);
    program.write(main, "/ck/ckpt.tmp", 64 << 20, 150 * kMs);
    program.fsync(main, "/ck/ckpt.tmp", 70 * kMs);
  }
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  ASSERT_TRUE(result.ok());
  const Explanation& found = result->explanation;
  EXPECT_FALSE(found.iterations.is_found);
  EXPECT_THAT(found.iterations.reason, HasSubstr("only saves repeat"));
  ASSERT_EQ(found.advice[0].id, "checkpoint");
  EXPECT_THAT(found.advice[0].evidence, HasSubstr("10 saves of 220 ms, 400 ms from one"));
}

// An epoch begins with two workers that start: unlike all other steps, but no reason to doubt them.
TEST(Iterations, OfEpochsAreFoundBelowTheEpochs) {
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  for (int i = 0; i < 120; ++i) {
    if (i % 20 == 0) {
      for (int k = 0; k < 30; ++k) program.call(main, "mmap", Category::kMetadata, 3 * kUs);
      program.run(main, 12 * kMs);
      program.open(main, "/d", 100 * kUs);
    }
    program.nap(main, 2 * kMs + i % 7 * 900 * kUs);
    program.read(main, "/d/batch.bin", 1 << 20, 30 * kUs);
    program.run(main, 4 * kMs + i % 3 * 100 * kUs);
  }
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  ASSERT_TRUE(result.ok());
  ASSERT_TRUE(result->explanation.iterations.is_found);
  EXPECT_NEAR(static_cast<double>(result->explanation.iterations.count), 120, 7);
}

// 250 tasks of 8 ms for one wait of the main thread.
TEST(Iterations, TheTasksOfAPoolAreNoIterations) {
  ProgramForTest program;
  auto main = program.thread(100, 100);
  std::vector<ProgramForTest::Thread> workers{program.thread(100, 101), program.thread(100, 102)};
  program.run(main, 5'000'000);
  for (int i = 0; i < 125; ++i) {
    for (auto& worker : workers) {
      program.read(worker, "/d/a.bin", 4096, 100'000);
      program.run(worker, 8'000'000);
    }
  }
  program.lock_until(main, workers[0].now_ns, workers[0]);
  program.run(main, 5'000'000);
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->explanation.iterations.is_found);
}

// Eight pictures a batch, too few batches to be sure of: a picture is no step.
TEST(Iterations, TheSamplesOfABatchAreNoIterations) {
  ProgramForTest program;
  Thread main = program.thread(100, 100), worker = program.thread(101, 101);
  std::mt19937_64 random(base_seed());
  for (int step = 0; step < 4; ++step) {
    for (int picture = 0; picture < 8; ++picture) {
      program.open(worker, "/d/a.rle", 10 * kUs);
      program.read(worker, "/d/a.rle", 150'000, 30 * kUs);
      program.call(worker, "close", Category::kMetadata, 3 * kUs);
      program.run(worker, 7 * kMs + static_cast<int64_t>(random() % kMs));
    }
    program.lock_until(main, worker.now_ns, worker);
    program.run(main, 4 * kMs);
  }
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  ASSERT_TRUE(result.ok());
  const Iterations& found = result->explanation.iterations;
  EXPECT_TRUE(!found.is_found || found.count == 4) << found.count << " by " << found.method;
}

// Both make batches; of the second, whose rounds nobody can tell apart, none would be counted.
TEST(Iterations, OfOneLoaderOfTwoAreNotAll) {
  ProgramForTest program;
  Thread main = program.thread(1, 1), worker = program.thread(1, 2), other = program.thread(1, 3);
  std::mt19937_64 random(base_seed());
  program.open(main, "/x", 10 * kUs);
  for (int i = 0; i < 80; ++i) {
    for (int k = 0; k < 4; ++k) program.read(worker, "/d/a.npz", 150'000, 2 * kMs);
    program.lock(worker, 12 * kMs);
  }
  while (other.now_ns < worker.now_ns) {
    const auto ns = static_cast<int64_t>(random() % (8 * kMs)) + kUs;
    program.read(other, "/d/a.npz", 150'000, ns / 2);
    random() % 2 == 0 ? program.lock(other, ns) : program.open(other, "/d/b.npz", ns / 8);
  }
  main.now_ns = worker.now_ns;
  program.open(main, "/y", 10 * kUs);
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  ASSERT_TRUE(result.ok());
  const Iterations& found = result->explanation.iterations;
  EXPECT_FALSE(found.is_found) << found.count << " by " << found.method;
}

// Half of the run has a call for each 100 us of work, the other half for each 50 us: seen from the
// first half, the second is one stretch of many steps with as many calls. Looking at each call once
// for each step would take a hundred times as long as the whole test.
TEST(Iterations, OfManyCallsCostLittle) {
  constexpr int kCalls = 30'000;
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  for (int i = 0; i < 2 * kCalls; ++i) {
    program.run(main, (i < kCalls ? 100 : 50) * kUs);
    program.read(main, "/d/a.bin", 4096, 1 * kUs);
  }
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->explanation.iterations.is_found);
}

// Found without marks: as many steps as there were, one more or less, and their median within 1 %.
Iterations expect_steps(ProgramForTest& program, const std::vector<int64_t>& lengths) {
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  EXPECT_TRUE(result.ok());
  if (!result.ok()) return {};
  const Iterations& found = result->explanation.iterations;
  EXPECT_TRUE(found.is_found) << found.reason;
  EXPECT_NEAR(static_cast<double>(found.count), static_cast<double>(lengths.size()), 1)
      << found.method;
  const auto truth = static_cast<double>(median_of(lengths));
  EXPECT_NEAR(static_cast<double>(found.p50_ns), truth, 0.01 * truth) << found.method;
  return found;
}

// Four files a step, decoded by the training thread; whoever else runs takes its core for longer
// than a step computes, and the samples say only roughly which work was decoding.
TEST(Iterations, AreFoundWhereTrainingDecodesItselfAndOthersTakeItsCore) {
  for (uint64_t seed = base_seed(); seed < base_seed() + 5; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    ProgramForTest program;
    program.sample_each(10 * kMs);
    Thread main = program.thread(100, 100);
    int64_t slice = 0;
    const auto run = [&](int64_t ns, const char* function) {
      for (int64_t done = 0; done < ns;) {
        const int64_t piece = std::min(ns - done, 4 * kMs - slice);
        program.run(main, piece, function);
        done += piece;
        slice = (slice + piece) % (4 * kMs);
        if (slice == 0) program.lose_core(main, static_cast<int64_t>(random() % (24 * kMs)) + 1);
      }
    };
    std::vector<int64_t> lengths;
    constexpr int kSteps = 80;
    for (int step = 0; step < kSteps; ++step) {
      const int64_t begin = main.now_ns;
      for (int file = 0; file < 4; ++file) {
        const std::string path = "/d/" + std::to_string(step * 4 + file) + ".bin";
        program.open(main, path, 4 * kUs);
        program.read(main, path, 16384, 3 * kUs);
        run(2 * kMs, "decode");
        program.call(main, "close", Category::kMetadata, 2 * kUs);
      }
      run(6 * kMs, "sgemm_");
      lengths.push_back(main.now_ns - begin);
    }
    expect_steps(program, lengths);
  }
}

// A read inside a batch may take as long as the step's computing; after the last step the program
// computes on.
TEST(Iterations, AreFoundWhereReadsInABatchTakeAsLongAsTheStep) {
  for (uint64_t seed = base_seed(); seed < base_seed() + 5; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::lognormal_distribution<double> slow(0, 2.2);  // median 1 ms, a twentieth beyond 37 ms
    ProgramForTest program;
    Thread main = program.thread(100, 100);
    std::vector<int64_t> lengths;
    constexpr int kSteps = 50;
    for (int step = 0; step < kSteps; ++step) {
      const int64_t begin = main.now_ns;
      for (int file = 0; file < 8; ++file) {
        const std::string path = "/d/" + std::to_string(step * 8 + file) + ".bin";
        program.open(main, path, 10 * kUs);
        for (int block = 0; block < 4; ++block) {
          const double ns = block == 0 ? slow(random) * kMs : 60 * kUs;
          program.read(main, path, 4096, static_cast<int64_t>(ns));
          program.run(main, 15 * kUs);
        }
        program.call(main, "close", Category::kMetadata, 2 * kUs);
        program.run(main, 30 * kUs);
      }
      program.run(main, static_cast<int64_t>(random() % kMs) + 14 * kMs);
      lengths.push_back(main.now_ns - begin);
    }
    program.run(main, 250 * kMs);
    program.call(main, "munmap", Category::kMetadata, 10 * kUs);
    const Iterations found = expect_steps(program, lengths);
    EXPECT_LE(found.max_ns, *std::max_element(lengths.begin(), lengths.end()) + kMs);
  }
}

// What torch's DataLoader with workers calls in the training thread for one batch.
void take_batch(ProgramForTest& program, Thread& main) {
  program.call(main, "poll", Category::kSleep, 3 * kUs);
  program.call(main, "read", Category::kNetwork, 3 * kUs, {program.file("pipe:")});
  for (int tensor = 0; tensor < 2; ++tensor) {
    program.call(main, "connect", Category::kNetwork, 15 * kUs, {program.file("unix:")});
    for (int k = 0; k < 4; ++k) {
      program.call(main, "recvfrom", Category::kNetwork, 30 * kUs, {program.file("unix:")});
      program.call(main, "sendto", Category::kNetwork, 4 * kUs, {program.file("unix:")});
    }
    program.call(main, "mmap", Category::kMetadata, 10 * kUs, {program.file("/dev/shm/t")});
    program.run(main, 50 * kUs);
  }
}

// Two workers: the batch that comes first may be the one after the next, which then calls nothing
// but the release of the one before. Its threads meet at locks while they compute, and spin for
// those that have no core.
TEST(Iterations, OfALoaderWithWorkersAreAllFound) {
  for (uint64_t seed = base_seed(); seed < base_seed() + 5; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(1.0, 0.1);
    ProgramForTest program;
    Thread main = program.thread(100, 100);
    std::vector<int64_t> lengths;
    constexpr int kSteps = 90;
    int ahead = 0;
    for (int step = 0; step < kSteps; ++step) {
      const int64_t begin = main.now_ns;
      if (ahead > 0) {
        --ahead;
      } else {
        // The batch of the next step is the first to come, or that of this one.
        ahead = step + 1 < kSteps && random() % 100 < 45 ? 1 : 0;
        program.nap(main, static_cast<int64_t>(random() % 40) * kMs + kMs);
        for (int batch = 0; batch <= ahead; ++batch) take_batch(program, main);
      }
      program.call(main, "close", Category::kMetadata, 2 * kUs, {program.file("/dev/shm/t")});
      for (int layer = 0; layer < 10; ++layer) {
        program.run(main, static_cast<int64_t>(2e6 * std::max(0.5, normal(random))), "conv2d");
        for (uint64_t k = random() % 3; k > 0; --k) program.lock(main, 300 * kUs);
        if (random() % 4 == 0) program.lose_core(main, static_cast<int64_t>(random() % (9 * kMs)));
      }
      lengths.push_back(main.now_ns - begin);
    }
    program.call(main, "munmap", Category::kMetadata, 10 * kUs);
    const Iterations found = found_in(program);
    ASSERT_TRUE(found.is_found) << found.reason;
    EXPECT_NEAR(static_cast<double>(found.count), kSteps, 1) << found.method;
    const auto truth = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), 0LL)) /
                       static_cast<double>(lengths.size());
    EXPECT_NEAR(static_cast<double>(found.mean_ns), truth, 0.03 * truth) << found.method;
  }
}

// An emulator without workers: it reads four files, and sleeps instead of computing. What it
// computes beside that is little and differs; another thread wakes up each two seconds.
TEST(Iterations, OfAnEmulatorThatSleepsAreFound) {
  for (uint64_t seed = base_seed(); seed < base_seed() + 5; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> tail(1);
    ProgramForTest program;
    Thread main = program.thread(100, 100), other = program.thread(100, 101);
    std::vector<int64_t> lengths;
    for (int step = 0; step < 120; ++step) {
      const int64_t begin = main.now_ns;
      for (int file = 0; file < 4; ++file) {
        const std::string path = "/d/" + std::to_string(step * 4 + file) + ".npz";
        program.open(main, path, 8 * kUs);
        for (int k = 0; k < 6; ++k) {
          program.read(main, path, 8192, 3 * kUs);
          program.call(main, "lseek", Category::kMetadata, kUs, {program.file(path)});
        }
        program.call(main, "close", Category::kMetadata, 2 * kUs, {program.file(path)});
        program.run(main, static_cast<int64_t>(tail(random) * 600e3));
      }
      program.nap(main, 50 * kMs);
      program.write(main, "/out/run.log", 120, 8 * kUs);
      lengths.push_back(main.now_ns - begin);
    }
    while (other.now_ns + 2001 * kMs < main.now_ns) {
      program.nap(other, 2000 * kMs);
      program.read(other, "/proc/self/statm", 30, 10 * kUs);
    }
    // The end: it polls for the others.
    for (int i = 0; i < 400; ++i) program.nap(main, 190 * kUs);
    expect_steps(program, lengths);
  }
}

// Nothing repeats where training is, and whoever wakes up each two seconds makes no batches.
TEST(Iterations, AreNotTheHeartbeatsOfAnotherThread) {
  std::mt19937_64 random(7);
  ProgramForTest program;
  Thread main = program.thread(100, 100), other = program.thread(100, 101);
  for (int i = 0; i < 300; ++i) {
    const double ns = std::exp(std::normal_distribution<double>(16, 2)(random));
    program.read(main, "/d/" + std::to_string(random() % 9), 1 << (random() % 20), kMs);
    program.run(main, static_cast<int64_t>(ns));
  }
  while (other.now_ns + 2001 * kMs < main.now_ns) {
    program.nap(other, 2000 * kMs);
    program.read(other, "/proc/self/statm", 30, 10 * kUs);
  }
  const Iterations found = found_in(program);
  EXPECT_FALSE(found.is_found) << found.count << " " << found.method;
}

// It waited a moment for whoever started it; on a busy machine what follows takes long.
TEST(Iterations, AreFoundWhereABusyMachineLoadsModulesSlowly) {
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  program.nap(main, 25 * kMs);
  for (int i = 0; i < 1000; ++i) {
    const std::string path = "/usr/lib/python3/m" + std::to_string(i) + ".py";
    program.open(main, path, 20 * kUs);
    program.read(main, path, 5000, 10 * kUs);
    program.run(main, (i % 13 + 1) * 100 * kUs);
    program.lose_core(main, (i % 7) * 6 * kMs);
  }
  std::vector<int64_t> lengths;
  for (int step = 0; step < 90; ++step) {
    const int64_t begin = main.now_ns;
    for (int k = 0; k < 4; ++k) program.read(main, "/d/a.jpg", 60'000, 20 * kUs);
    program.run(main, 20 * kMs + step % 7 * 300 * kUs);
    program.lose_core(main, (step % 5) * 12 * kMs);
    lengths.push_back(main.now_ns - begin);
  }
  const Iterations found = expect_steps(program, lengths);
  EXPECT_GE(found.confidence.value_or(0), 0.7);
}

TEST(Iterations, AreNotInventedInSampledNoiseWithoutCores) {
  for (uint64_t seed = base_seed(); seed < base_seed() + 10; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto heavy = [&](double mean) {
      return static_cast<int64_t>(std::exp(std::normal_distribution<double>(mean, 2)(random)));
    };
    ProgramForTest program;
    program.sample_each(10 * kMs);
    Thread main = program.thread(1, 1);
    for (int i = 0; i < 2000; ++i) {
      const std::string path = "/d/" + std::to_string(random() % 50) + ".bin";
      if (random() % 3 == 0) program.open(main, path, heavy(9));
      program.read(main, path, 1 << (8 + random() % 10), heavy(11));
      program.run(main, heavy(12), random() % 2 == 0 ? "decode" : "sgemm_");
      if (random() % 4 == 0) program.lose_core(main, heavy(15));
    }
    auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
    ASSERT_TRUE(result.ok());
    const Iterations& found = result->explanation.iterations;
    EXPECT_FALSE(found.is_found) << found.method << " " << found.confidence.value_or(0);
  }
}

}  // namespace
}  // namespace forebay::explain
