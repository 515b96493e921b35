// Each instant of a driver's time has one owner, the right one; the parts add up exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "explain/explain.h"
#include "explain/program_for_test.h"

namespace forebay::explain {
namespace {

using ::testing::HasSubstr;
using trace::Category;
using Thread = ProgramForTest::Thread;
constexpr int64_t kMs = 1'000'000;

Explanation explained(trace::Recording recording, const Selection& selection = {}) {
  auto result = explain(recording, selection);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return std::move(result).take().explanation;
}

void expect_sums(const Explanation& found) {
  for (const Driver& driver : found.drivers) {
    EXPECT_EQ(driver.whole.total_ns(), driver.end_ns - driver.begin_ns) << driver.name;
    for (const Iteration& step : driver.iterations) {
      EXPECT_EQ(step.parts.total_ns(), step.end_ns - step.begin_ns) << step.number;
    }
  }
}

// Twenty marked steps, each 10 ms of computing after what `data` does.
Explanation twenty_steps(const std::function<void(ProgramForTest&, Thread&)>& data,
                         int64_t period_ns = 0) {
  ProgramForTest program;
  program.sample_each(period_ns);
  Thread main = program.thread(100, 100);
  for (int i = 0; i < 20; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      data(program, main);
      program.run(main, 10 * kMs);
    });
  }
  Explanation found = explained(program.finish());
  expect_sums(found);
  EXPECT_EQ(found.iterations.count, 20u);
  return found;
}

double share(const Explanation& found, Part part) {
  return found.steps.share(part);
}

TEST(Breakdown, OwnReadsAreFetchStall) {
  const auto found = twenty_steps(
      [](ProgramForTest& p, Thread& main) { p.read(main, "/d/a.npz", 1 << 20, 30 * kMs); });
  EXPECT_NEAR(share(found, Part::kFetchStall), 0.75, 0.001);
  EXPECT_NEAR(share(found, Part::kCompute), 0.25, 0.001);
}

TEST(Breakdown, OpeningAndListingAreFetchStall) {
  const auto found =
      twenty_steps([](ProgramForTest& p, Thread& main) { p.open(main, "/d/a", 10 * kMs); });
  EXPECT_NEAR(share(found, Part::kFetchStall), 0.5, 0.001);
}

TEST(Breakdown, SamplesTellDecodingFromComputing) {
  const auto found = twenty_steps(
      [](ProgramForTest& p, Thread& main) { p.run(main, 30 * kMs, "decode_image"); }, kMs);
  EXPECT_NEAR(share(found, Part::kPrepStall), 0.75, 0.01);
  EXPECT_NEAR(share(found, Part::kCompute), 0.25, 0.01);
}

TEST(Breakdown, WhatNobodySampledIsNotComputing) {
  // Blocked in a call that no collector sees: samples stop.
  const auto found =
      twenty_steps([](ProgramForTest&, Thread& main) { main.now_ns += 40 * kMs; }, kMs);
  EXPECT_NEAR(share(found, Part::kCompute), 0.22, 0.01);  // one period is believed
  EXPECT_NEAR(share(found, Part::kIdle), 0.78, 0.01);
}

int64_t cause(const Explanation& found, Part part, std::string_view what) {
  int64_t ns = 0;
  for (const Cause& each : found.causes) {
    if (each.part == part && each.what == what) ns += each.ns;
  }
  return ns;
}

TEST(Breakdown, BeingReadyWithoutACoreIsNotComputing) {
  const auto found =
      twenty_steps([](ProgramForTest& p, Thread& main) { p.lose_core(main, 30 * kMs); });
  EXPECT_NEAR(share(found, Part::kCompute), 0.25, 0.001);
  EXPECT_NEAR(share(found, Part::kOther), 0.75, 0.001);
  EXPECT_EQ(cause(found, Part::kOther, "ready, without a core"), found.steps[Part::kOther]);
}

TEST(Breakdown, BeingReadyInsideAMarkedComputationIsNotComputing) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    p.range(main, "forward", Category::kAnnotation, [&] { p.lose_core(main, 10 * kMs); });
  });
  EXPECT_NEAR(share(found, Part::kOther), 0.5, 0.001);
}

TEST(Breakdown, WaitingForChildrenIsIdleHoweverBusyTheyAre) {
  ProgramForTest program;
  Thread main = program.thread(100, 100), child = program.thread(200, 200);
  program.writer().add(
      {main.track, program.writer().name("fork", Category::kProcess, trace::EventKind::kInstant),
       main.now_ns, 0},
      {program.number("child", 200)});
  program.open(child, "/d/x", 1000);
  for (int i = 0; i < 20; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      program.run(child, 10 * kMs);
      program.call(main, "wait4", Category::kSleep, 10 * kMs);
      program.run(main, 10 * kMs);
      program.lock(child, 10 * kMs);
    });
  }
  const auto found = explained(program.finish());
  expect_sums(found);
  EXPECT_NEAR(share(found, Part::kCompute), 0.5, 0.001);
  EXPECT_NEAR(share(found, Part::kIdle), 0.5, 0.001);
  EXPECT_EQ(cause(found, Part::kIdle, "waiting for child processes"), found.steps[Part::kIdle]);
}

// A script's commands follow each other: they are no ranks of one job.
TEST(Breakdown, CommandsOfAScriptAreNoRanks) {
  for (const int64_t train_ns : {20 * kMs, 2'000 * kMs}) {
    ProgramForTest program;
    Thread shell = program.thread(100, 100, "sh");
    program.open(shell, "/etc/profile", kMs);
    for (int command = 0; command < 5; ++command) {
      const int pid = 200 + command;
      program.writer().add(
          {shell.track,
           program.writer().name("fork", Category::kProcess, trace::EventKind::kInstant),
           shell.now_ns, 0},
          {program.number("child", pid)});
      Thread child = program.thread(pid, pid, command == 2 ? "train" : "cat");
      child.now_ns = shell.now_ns;
      for (int i = 0; i < 10; ++i) {
        program.read(child, "/d/a", 1 << 20, kMs);
        program.run(child, command == 2 ? train_ns / 10 : 2 * kMs);
      }
      program.read(child, "/d/a", 0, 1000);
      program.call(shell, "wait4", Category::kSleep, child.now_ns - shell.now_ns);
    }
    const auto found = explained(program.finish());
    ASSERT_EQ(found.drivers.size(), 1u);
    EXPECT_THAT(found.drivers[0].name, testing::HasSubstr(train_ns > kMs * 1'000 ? "202" : "100"));
  }
}

TEST(Breakdown, AShellWhoseChildrenNobodySawItBeginIsNoTrainer) {
  ProgramForTest program;
  Thread shell = program.thread(100, 100, "sh"), train = program.thread(200, 200);
  program.open(shell, "/bin/train", kMs);
  program.call(shell, "wait4", Category::kSleep, 999 * kMs);
  train.now_ns += 10 * kMs;
  for (int i = 0; i < 9; ++i) {
    program.read(train, "/d/a", 1 << 20, 30 * kMs);
    program.run(train, 70 * kMs);
  }
  const auto found = explained(program.finish());
  ASSERT_EQ(found.drivers.size(), 1u);
  EXPECT_THAT(found.drivers[0].name, testing::HasSubstr("200"));
  // Eight times 70 of 830 ms: what comes after the last call was not seen.
  EXPECT_NEAR(found.whole.share(Part::kCompute), 560.0 / 830, 0.001);
}

// A profiler's trace: what its events leave out may be computing or waiting.
TEST(Breakdown, WhatNoEventCoversWasNotSeen) {
  ProgramForTest program;
  program.made_by("import kineto");
  Thread main = program.thread(100, 100);
  for (int i = 0; i < 20; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      program.call(main, "aten::mm", Category::kOperator, 10 * kMs);
      main.now_ns += 30 * kMs;
    });
  }
  const auto found = explained(program.finish());
  expect_sums(found);
  EXPECT_NEAR(share(found, Part::kCompute), 0.25, 0.001);
  EXPECT_EQ(cause(found, Part::kOther, "not seen by the recording"), found.steps[Part::kOther]);
  EXPECT_NEAR(share(found, Part::kOther), 0.75, 0.001);
  EXPECT_THAT(found.headline, testing::HasSubstr("75 % of the time was not seen"));
  EXPECT_EQ(found.advice[0].id, "not-seen");
  EXPECT_TRUE(found.advice[0].is_warning);
}

TEST(Breakdown, CollectivesInOtherThreadsAreSyncStallWhereNothingHidesThem) {
  ProgramForTest program;
  program.made_by("import kineto");
  Thread main = program.thread(100, 100), gloo = program.thread(100, 101);
  for (int i = 0; i < 20; ++i) {
    program.range(main, "ProfilerStep#" + std::to_string(i), Category::kStep, [&] {
      program.call(gloo, "gloo:all_reduce", Category::kCollective, 40 * kMs);
      program.call(main, "aten::mm", Category::kOperator, 10 * kMs);
      main.now_ns += 30 * kMs;
    });
  }
  const auto found = explained(program.finish());
  expect_sums(found);
  EXPECT_NEAR(share(found, Part::kCompute), 0.25, 0.001);
  EXPECT_NEAR(share(found, Part::kSyncStall), 0.75, 0.001);
}

TEST(Breakdown, OperatorsOfOtherThreadsAreComputing) {
  ProgramForTest program;
  program.made_by("import kineto");
  Thread main = program.thread(100, 100), autograd = program.thread(100, 101);
  for (int i = 0; i < 20; ++i) {
    program.range(main, "ProfilerStep#" + std::to_string(i), Category::kStep, [&] {
      program.call(autograd, "AddmmBackward0", Category::kOperator, 40 * kMs);
      main.now_ns += 40 * kMs;
    });
  }
  EXPECT_NEAR(share(explained(program.finish()), Part::kCompute), 1, 0.001);
}

// Counters of CPU time, ten times a second, where nobody sampled or saw the scheduler.
TEST(Breakdown, CountedCpuTimeDecidesWhatIsComputing) {
  ProgramForTest program;
  program.made_by("record", "interposer");
  Thread main = program.thread(100, 100);
  const int64_t begin = main.now_ns;
  for (int64_t ms = 0; ms < 2000; ms += 100) {
    const bool is_even = ms % 200 == 0;
    program.counter(main.track, "cpu_cores", begin + ms * kMs, is_even ? 0.3 : 0.2);
    program.counter(main.track, "runnable_cores", begin + ms * kMs, is_even ? 0.1 : 0.2);
  }
  for (int i = 0; i < 20; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      program.read(main, "/d/a", 1 << 20, 50 * kMs);
      main.now_ns += 50 * kMs;
    });
  }
  const auto found = explained(program.finish());
  expect_sums(found);
  EXPECT_NEAR(share(found, Part::kFetchStall), 0.5, 0.001);
  EXPECT_NEAR(share(found, Part::kCompute), 0.25, 0.001);
  EXPECT_NEAR(share(found, Part::kOther), 0.15, 0.001);
  EXPECT_NEAR(share(found, Part::kIdle), 0.1, 0.001);
}

// Of each 10 ms `waits` are recorded, 6 ms long together; the CPU time says that it ran for `ran`.
double computing(int waits, double ran) {
  ProgramForTest program;
  program.made_by("record", "interposer");
  Thread main = program.thread(100, 100);
  const int64_t begin = main.now_ns;
  for (int64_t ms = 0; ms < 1000; ms += 100)
    program.counter(main.track, "cpu_cores", begin + ms * kMs, ran);
  for (int i = 0; i < 100; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      for (int k = 0; k < waits; ++k) {
        program.call(main, "off cpu", Category::kOffCpu, 6 * kMs / waits);
        main.now_ns += 4 * kMs / waits;
      }
    });
  }
  const auto found = explained(program.finish());
  expect_sums(found);
  return share(found, Part::kCompute);
}

// Of waits as short as 30 us the kernel's own work on a switch is no small part.
TEST(Breakdown, SwitchesThatWereRecordedLateAreMadeGoodByTheCpuTime) {
  EXPECT_NEAR(computing(200, 0.8), 0.8, 0.005);
  EXPECT_NEAR(computing(200, 0.4), 0.4, 0.005);
  EXPECT_NEAR(computing(200, 0.2), 0.4, 0.005) << "what was recorded as running was no wait";
  EXPECT_NEAR(computing(1, 0.8), 0.4, 0.01) << "no switch takes milliseconds";
}

TEST(Breakdown, WithCallsAloneComputingIsWhatLiesBetweenThemAndThatIsSaid) {
  ProgramForTest program;
  program.made_by("record", "interposer");
  Thread main = program.thread(100, 100);
  for (int i = 0; i < 20; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      program.read(main, "/d/a", 1 << 20, 10 * kMs);
      program.run(main, 30 * kMs);
    });
  }
  const auto found = explained(program.finish());
  EXPECT_NEAR(share(found, Part::kCompute), 0.75, 0.001);
  EXPECT_THAT(found.warnings, testing::Contains(testing::HasSubstr("nobody watched the CPU")));
}

// Computing without a call is no end of the thread.
TEST(Breakdown, AMainThreadLivesUntilItsProcessEnds) {
  ProgramForTest program;
  Thread main = program.thread(100, 100), worker = program.thread(100, 101);
  program.open(main, "/d/index", kMs);
  for (int i = 0; i < 20; ++i) {
    program.run(worker, 49 * kMs);
    program.read(worker, "/d/x", 1 << 20, kMs);
  }
  const auto found = explained(program.finish());
  expect_sums(found);
  ASSERT_EQ(found.drivers.size(), 1u);
  EXPECT_EQ(found.drivers[0].whole.total_ns(), 1000 * kMs);
  EXPECT_NEAR(found.whole.share(Part::kCompute), 0.999, 0.001);
}

// What was counted and not kept is written when the recording ends; its thread may be gone.
TEST(Breakdown, SumsAtTheEndDoNotProlongAThread) {
  ProgramForTest program;
  Thread main = program.thread(100, 100), other = program.thread(200, 200);
  program.read(main, "/d/a", 1 << 20, 30 * kMs);
  program.run(main, 70 * kMs);
  program.nap(main, kMs);
  program.nap(other, 5000 * kMs);
  program.writer().add(
      {main.track, program.writer().name("futex", Category::kLock, trace::EventKind::kInstant),
       other.now_ns, 0},
      {program.number("count", 1), program.number("total_ns", 872)});
  const auto found = explained(program.finish());
  ASSERT_EQ(found.drivers.size(), 1u);
  EXPECT_EQ(found.drivers[0].whole.total_ns(), 101 * kMs);
}

TEST(Breakdown, OnlyIoIsNoHealth) {
  ProgramForTest program;
  program.made_by("import dftracer");
  Thread main = program.thread(100, 100);
  for (int i = 0; i < 20; ++i) {
    program.read(main, "/d/a", 1 << 20, kMs);
    main.now_ns += 99 * kMs;
  }
  const auto found = explained(program.finish());
  EXPECT_EQ(found.whole[Part::kCompute], 0);
  EXPECT_THAT(found.headline, testing::HasSubstr("only I/O was recorded: it takes 1.1 %"));
  EXPECT_THAT(found.headline, testing::HasSubstr("not seen"));
}

TEST(Breakdown, SleepIsIdle) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) { p.nap(main, 10 * kMs); });
  EXPECT_NEAR(share(found, Part::kIdle), 0.5, 0.001);
}

TEST(Breakdown, BarriersAndCollectivesAreSyncStall) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    p.call(main, "pthread_barrier_wait", Category::kLock, 5 * kMs);
    p.call(main, "all_reduce", Category::kCollective, 5 * kMs);
  });
  EXPECT_NEAR(share(found, Part::kSyncStall), 0.5, 0.001);
}

TEST(Breakdown, CopiesAreCopies) {
  const auto found = twenty_steps(
      [](ProgramForTest& p, Thread& main) { p.call(main, "H2D", Category::kCopy, 10 * kMs); });
  EXPECT_NEAR(share(found, Part::kCopy), 0.5, 0.001);
}

TEST(Breakdown, LargeWritesWithFsyncAndSerialisingAreACheckpoint) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    p.write(main, "/out/model.tmp", 4 << 20, 3 * kMs);
    p.run(main, 2 * kMs, "pickle_dump");
    p.write(main, "/out/model.tmp", 4 << 20, 3 * kMs);
    p.fsync(main, "/out/model.tmp", 2 * kMs);
  });
  EXPECT_NEAR(share(found, Part::kCheckpoint), 0.5, 0.001);
  EXPECT_TRUE(found.drivers[0].iterations[3].has_checkpoint);
}

// The first sample inside a save stands for CPU time before it, which was training.
TEST(Breakdown, ASampleInASaveSaysNothingOfTheTrainingBefore) {
  const auto found = twenty_steps(
      [](ProgramForTest& p, Thread& main) {
        p.run(main, 9 * kMs);
        p.write(main, "/out/model.pt", 4 << 20, 9 * kMs);
        p.run(main, kMs, "save_checkpoint");
        p.fsync(main, "/out/model.pt", 10 * kMs);
      },
      10 * kMs);
  EXPECT_NEAR(share(found, Part::kCheckpoint), 20.0 / 39, 0.01);
}

TEST(Breakdown, MarksTieNoSavesTogether) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    p.write(main, "/out/model.tmp", 4 << 20, 2 * kMs);
    p.fsync(main, "/out/model.tmp", 8 * kMs);
    p.run(main, kMs / 2);
    p.write(main, "/rec/4711.marks", 40, 5'000);
    p.run(main, kMs / 2);
    p.write(main, "/rec/4711.marks", 40, 5'000);
  });
  EXPECT_NEAR(share(found, Part::kCheckpoint), 10.0 / 21, 0.01);
}

// 80 bytes each millisecond are 1 MiB after a while.
TEST(Breakdown, LinesThatAddUpAreNoCheckpoint) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    for (int i = 0; i < 1000; ++i) {
      p.write(main, "/out/progress", 80, 20'000);
      p.run(main, 980'000);
    }
  });
  EXPECT_EQ(found.steps[Part::kCheckpoint], 0);
}

TEST(Breakdown, MemoryThatProcessesShareIsNoCheckpoint) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    p.write(main, "/dev/shm/ucx_shm_posix_4f0a", 4 << 20, 5 * kMs);
    p.write(main, "/dev/shm/saved/checkpoint-7.pt", 4 << 20, 5 * kMs);
    p.call(main, "close", Category::kMetadata, 1000, {p.file("/dev/shm/saved/checkpoint-7.pt")});
  });
  EXPECT_NEAR(share(found, Part::kCheckpoint), 0.25, 0.001);
}

TEST(Breakdown, DataThatIsMadeAndReadIsNoCheckpoint) {
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  for (int i = 0; i < 20; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      program.write(main, "/d/part-" + std::to_string(i) + ".npy", 4 << 20, 8 * kMs);
      program.fsync(main, "/d/part-" + std::to_string(i) + ".npy", 2 * kMs);
      program.run(main, 10 * kMs);
    });
  }
  program.read(main, "/d/part-0.npy", 4 << 20, kMs);
  const auto found = explained(program.finish());
  EXPECT_EQ(found.steps[Part::kCheckpoint], 0);
  EXPECT_NEAR(share(found, Part::kOther), 0.5, 0.001);
}

// Training waits while another thread writes.
Explanation with_writer(const std::function<void(ProgramForTest&, Thread&)>& write) {
  ProgramForTest program;
  Thread main = program.thread(100, 100), writer = program.thread(100, 101);
  for (int i = 0; i < 20; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      write(program, writer);
      program.lock_until(main, writer.now_ns, writer);
      program.run(main, 10 * kMs);
      program.lock(writer, main.now_ns - writer.now_ns);
    });
  }
  return explained(program.finish());
}

TEST(Breakdown, TheAppendsOfALogThreadAreNoCheckpoint) {
  const auto found = with_writer([](ProgramForTest& p, Thread& writer) {
    p.write(writer, "/out/checkpoints/events.log", 200, 5 * kMs);
    p.fsync(writer, "/out/checkpoints/events.log", 3 * kMs);
    p.write(writer, "/out/metrics", 200, kMs);
    p.fsync(writer, "/out/metrics", kMs);
  });
  EXPECT_EQ(found.steps[Part::kCheckpoint], 0);
  EXPECT_NEAR(share(found, Part::kOther), 0.5, 0.001);
}

TEST(Breakdown, ASaveOfAnotherThreadThatTrainingWaitsForIsACheckpoint) {
  const auto found = with_writer([](ProgramForTest& p, Thread& writer) {
    p.write(writer, "/out/model.tmp", 8 << 20, 6 * kMs);
    p.fsync(writer, "/out/model.tmp", 4 * kMs);
  });
  EXPECT_NEAR(share(found, Part::kCheckpoint), 0.5, 0.001);
}

// Twenty-four of 40 save: seen once as 384 of 497, "every 15", beside an ordinary step of a tenth
// of the median.
TEST(SlowKinds, WhatMostIterationsDoIsNotSlow) {
  const auto found = [](int of_five) {
    ProgramForTest program;
    Thread main = program.thread(100, 100);
    for (int i = 0; i < 40; ++i) {
      program.range(main, "step", Category::kStep, [&] {
        program.run(main, 10 * kMs);
        if (i % 5 >= of_five) return;
        program.write(main, "/out/model.pt", 8 << 20, 15 * kMs);
        program.call(main, "close", Category::kMetadata, 5 * kMs, {program.file("/out/model.pt")});
      });
    }
    return explained(program.finish());
  };
  const Explanation often = found(3);
  EXPECT_TRUE(often.slow.empty());
  const Explanation seldom = found(1);
  ASSERT_EQ(seldom.slow.size(), 1u);
  const SlowKind& kind = seldom.slow[0];
  EXPECT_EQ(kind.count, 8u);
  EXPECT_EQ(kind.every, 5u);
  EXPECT_EQ(kind.ordinary_ns, 10 * kMs);
  EXPECT_EQ(kind.mean_ns, 30 * kMs);
  EXPECT_EQ(kind.excess_ns, 8 * 20 * kMs);
  EXPECT_EQ(kind.excess[Part::kCheckpoint], 20 * kMs);
  EXPECT_THAT(kind.explanation, HasSubstr("30.0 ms each, 20.0 ms more than the mean 10.0 ms of the "
                                          "32 ordinary ones"));
}

TEST(Breakdown, ALogLineIsNoCheckpoint) {
  const auto found =
      twenty_steps([](ProgramForTest& p, Thread& main) { p.write(main, "/out/log.txt", 80, kMs); });
  EXPECT_EQ(found.steps[Part::kCheckpoint], 0);
  EXPECT_GT(found.steps[Part::kOther], 0);
}

TEST(Breakdown, MarksWinOverGuesses) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    p.range(main, "decode", Category::kAnnotation,
            [&] { p.read(main, "/d/a", 1 << 20, 10 * kMs); });
    p.range(main, "forward", Category::kAnnotation, [&] { p.nap(main, 10 * kMs); });
    p.range(main, "save checkpoint", Category::kAnnotation, [&] { p.run(main, 10 * kMs); });
  });
  EXPECT_NEAR(share(found, Part::kPrepStall), 0.25, 0.001);
  EXPECT_NEAR(share(found, Part::kCompute), 0.5, 0.001);
  EXPECT_NEAR(share(found, Part::kCheckpoint), 0.25, 0.001);
}

TEST(Breakdown, ADataMarkIsSplitByWhatHappensInside) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    p.range(main, "load data", Category::kAnnotation, [&] {
      p.read(main, "/d/a", 1 << 20, 20 * kMs);
      p.run(main, 10 * kMs);
    });
  });
  EXPECT_NEAR(share(found, Part::kFetchStall), 0.5, 0.001);
  EXPECT_NEAR(share(found, Part::kPrepStall), 0.25, 0.001);
}

TEST(Breakdown, PageFaultsOnFilesAreFetchAndOthersAreMemory) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    p.call(main, "page fault", Category::kFault, 5 * kMs, {p.file("/d/table")});
    p.call(main, "page fault", Category::kFault, 5 * kMs);
  });
  EXPECT_NEAR(share(found, Part::kFetchStall), 0.25, 0.001);
  EXPECT_NEAR(share(found, Part::kOther), 0.25, 0.001);
}

// The kernel enters and leaves a fault on the CPU: 5 us of 34 that the program waits for.
TEST(Breakdown, TheCpusPartOfPageFaultsIsFetchStall) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    for (int i = 0; i < 200; ++i) {
      p.call(main, "page fault", Category::kFault, 29'000, {p.file("/d/table")});
      if (i + 1 < 200) p.run(main, 5'000);
    }
  });
  EXPECT_NEAR(share(found, Part::kFetchStall), 6.795 / 16.795, 0.001);
}

// A worker opens and reads 200 files for each step, then does what `work` does; training waits.
Explanation with_reader(const std::function<void(ProgramForTest&, Thread&)>& between) {
  ProgramForTest program;
  Thread main = program.thread(100, 100), worker = program.thread(100, 101);
  for (int i = 0; i < 20; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      for (int file = 0; file < 200; ++file) {
        program.open(worker, "/d/a.jpg", 10'000);
        program.run(worker, 1'000);
        program.read(worker, "/d/a.jpg", 8'000, 30'000);
        between(program, worker);
      }
      program.lock_until(main, worker.now_ns, worker);
      program.run(main, 10 * kMs);
      program.lock(worker, main.now_ns - worker.now_ns);
    });
  }
  Explanation found = explained(program.finish());
  expect_sums(found);
  return found;
}

TEST(Breakdown, TheCpuTimeBetweenTheCallsOfAReaderIsFetching) {
  const auto found = with_reader([](ProgramForTest& p, Thread& worker) { p.run(worker, 4'000); });
  EXPECT_NEAR(share(found, Part::kFetchStall), 9.0 / 19, 0.005);
  EXPECT_LT(share(found, Part::kPrepStall), 0.005);
}

TEST(Breakdown, WorkOnWhatWasReadIsPreparingHoweverShort) {
  const auto slow = with_reader([](ProgramForTest& p, Thread& worker) { p.run(worker, 40'000); });
  EXPECT_NEAR(share(slow, Part::kPrepStall), 8.0 / 26.2, 0.01);
  // Reads of 1 us that memory serves, 9 us of parsing after each: no loop around calls.
  const auto parsing = with_reader([](ProgramForTest& p, Thread& worker) {
    for (int i = 0; i < 20; ++i) {
      p.run(worker, 9'000);
      p.read(worker, "/d/a.jpg", 4096, 1'000);
    }
  });
  EXPECT_NEAR(share(parsing, Part::kPrepStall), 36.2 / 58.2, 0.01);
}

// Training waits for a worker thread that reads and decodes; nobody is marked but the steps.
Explanation with_worker(int64_t read_ns, int64_t decode_ns, bool knows_waker) {
  ProgramForTest program;
  Thread main = program.thread(100, 100), worker = program.thread(100, 101);
  Thread bystander = program.thread(100, 102);
  for (int i = 0; i < 20; ++i) {
    const int64_t begin = main.now_ns;
    if (read_ns > 0) program.read(worker, "/d/a.jpg", 100'000, read_ns);
    program.run(worker, decode_ns);
    if (knows_waker) {
      program.lock_until(main, worker.now_ns, worker);
      program.run(bystander, main.now_ns - bystander.now_ns);  // busy, but not for us
    } else {
      program.lock(main, worker.now_ns - main.now_ns);
      program.lock(bystander, main.now_ns - bystander.now_ns);
    }
    program.run(main, 10 * kMs);
    program.lock(worker, main.now_ns - worker.now_ns);
    program.writer().add(
        {main.track, program.writer().name("step", Category::kStep), begin, main.now_ns - begin});
  }
  Explanation found = explained(program.finish());
  expect_sums(found);
  return found;
}

TEST(Breakdown, WaitsGoToWhatTheAwaitedThreadDid) {
  for (const bool knows_waker : {false, true}) {
    SCOPED_TRACE(knows_waker);
    const auto found = with_worker(20 * kMs, 10 * kMs, knows_waker);
    EXPECT_NEAR(share(found, Part::kCompute), 0.25, 0.01);
    EXPECT_NEAR(share(found, Part::kFetchStall), 0.5, 0.01);
    EXPECT_NEAR(share(found, Part::kPrepStall), 0.25, 0.01);
  }
}

// One lock for all workers: who ended the wait had to wait for another first.
TEST(Breakdown, WhoHeldUpTheAwaitedThreadIsWaitedForToo) {
  ProgramForTest program;
  Thread main = program.thread(100, 100), worker = program.thread(100, 101);
  Thread holder = program.thread(100, 102);
  for (int i = 0; i < 20; ++i) {
    const int64_t begin = main.now_ns;
    program.run(holder, 10 * kMs);
    program.lock(worker, 10 * kMs);
    program.run(worker, 20 * kMs);
    program.lock_until(main, worker.now_ns, worker);
    program.run(main, 10 * kMs);
    program.lock(worker, main.now_ns - worker.now_ns);
    program.lock(holder, main.now_ns - holder.now_ns);
    program.writer().add(
        {main.track, program.writer().name("step", Category::kStep), begin, main.now_ns - begin});
  }
  const auto found = explained(program.finish());
  expect_sums(found);
  EXPECT_NEAR(share(found, Part::kPrepStall), 0.75, 0.02);
  EXPECT_LT(share(found, Part::kOther), 0.02);  // 0.25 if only the worker counted
}

TEST(Breakdown, AWaitThatNothingExplainsIsNotBlamed) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) { p.lock(main, 10 * kMs); });
  EXPECT_NEAR(share(found, Part::kOther), 0.5, 0.001);
}

TEST(Breakdown, ReadingAPipeIsWaitingForItsWriter) {
  ProgramForTest program;
  Thread main = program.thread(100, 100), worker = program.thread(200, 200);
  program.writer().add(
      {main.track, program.writer().name("fork", Category::kProcess, trace::EventKind::kInstant),
       main.now_ns, 0},
      {program.number("child", 200)});
  program.open(worker, "/d/index", 1000);
  for (int i = 0; i < 20; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      program.run(worker, 30 * kMs);
      program.call(main, "read", Category::kNetwork, 30 * kMs, {program.file("pipe")});
      program.run(main, 10 * kMs);
      program.call(worker, "read", Category::kNetwork, 10 * kMs, {program.file("pipe")});
    });
  }
  const auto found = explained(program.finish());
  ASSERT_EQ(found.drivers.size(), 1u);
  for (const Iteration& step : found.drivers[0].iterations)
    EXPECT_NEAR(step.parts.share(Part::kPrepStall), 0.75, 0.01) << step.begin_ns;
}

TEST(Breakdown, AnEmulatedDeviceSaysItself) {
  ProgramForTest program;
  const trace::TrackId device =
      program.writer().add_track(trace::TrackKind::kDevice, program.host(), "h100 0", 0);
  Thread track{device, 1'000'000'000, 0, 0};
  Thread reader = program.thread(1, 2, "reader");
  for (int i = 0; i < 10; ++i) {
    program.read(reader, "/d/x", 1 << 20, 20 * kMs);
    program.call(track, "data wait", Category::kDataWait, 20 * kMs);
    program.call(track, "compute", Category::kCompute, 60 * kMs);
    program.call(track, "barrier", Category::kCollective, 20 * kMs);
    reader.now_ns = track.now_ns;
  }
  const auto found = explained(program.finish());
  expect_sums(found);
  ASSERT_EQ(found.drivers.size(), 1u);
  EXPECT_NEAR(found.whole.share(Part::kCompute), 0.6, 0.001);
  EXPECT_NEAR(found.whole.share(Part::kFetchStall), 0.2, 0.001);
  EXPECT_NEAR(found.whole.share(Part::kSyncStall), 0.2, 0.001);
  EXPECT_TRUE(found.iterations.is_found);
  EXPECT_NEAR(static_cast<double>(found.iterations.p50_ns), 100e6, 1e6);
}

// An emulated job that does nothing but save and restore: no compute, no data.
TEST(Breakdown, AnEmulatedDeviceThatOnlySavesIsSaving) {
  ProgramForTest program;
  const trace::TrackId device =
      program.writer().add_track(trace::TrackKind::kDevice, program.host(), "accelerator", 0);
  Thread track{device, 1'000'000'000, 0, 0};
  for (int i = 0; i < 4; ++i) {
    program.range(track, "save", Category::kCheckpoint, [&] {
      program.call(track, "write", Category::kCheckpoint, 20 * kMs);
      program.call(track, "fsync", Category::kCheckpoint, 40 * kMs);
    });
    if (i < 3) track.now_ns += 20 * kMs;
  }
  const auto found = explained(program.finish());
  expect_sums(found);
  ASSERT_EQ(found.drivers.size(), 1u);
  EXPECT_NEAR(found.whole.share(Part::kCheckpoint), 0.8, 0.001);
}

// An accelerator with two streams, its host thread launching.
struct Accelerated {
  ProgramForTest program;
  Thread host = program.thread(100, 100);
  trace::TrackId device =
      program.writer().add_track(trace::TrackKind::kDevice, program.host(), "cuda:0", 0);
  trace::TrackId stream =
      program.writer().add_track(trace::TrackKind::kStream, device, "stream 7", 7);
  trace::TrackId other =
      program.writer().add_track(trace::TrackKind::kStream, device, "stream 20", 20);
  void on(trace::TrackId where, std::string_view name, Category category, int64_t begin_ms,
          int64_t ms) {
    program.writer().add(
        {where, program.writer().name(name, category), 1'000'000'000 + begin_ms * kMs, ms * kMs});
  }
};

TEST(Breakdown, AcceleratorsAreBusyOnceHoweverManyStreams) {
  Accelerated a;
  for (int64_t i = 0; i < 10; ++i) {
    const int64_t at = i * 100;
    a.program.range(a.host, "ProfilerStep#" + std::to_string(i), Category::kStep, [&] {
      a.program.call(a.host, "cudaLaunchKernel", Category::kLaunch, kMs);
      a.program.call(a.host, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                     Category::kOperator, 19 * kMs);
      a.program.call(a.host, "cudaLaunchKernel", Category::kLaunch, 80 * kMs);
    });
    a.on(a.stream, "gemm", Category::kCompute, at + 20, 40);
    a.on(a.other, "gemm2", Category::kCompute, at + 30, 40);  // to 70
    a.on(a.other, "ncclDevKernel_AllReduce", Category::kCollective, at + 70, 10);
    a.on(a.stream, "ncclDevKernel_AllReduce", Category::kCollective, at + 60, 15);  // 70..75 open
    a.on(a.stream, "Memcpy HtoD", Category::kCopy, at + 80, 10);
  }
  const auto found = explained(a.program.finish());
  expect_sums(found);
  ASSERT_EQ(found.drivers.size(), 1u);
  EXPECT_TRUE(found.drivers[0].is_device);
  EXPECT_EQ(found.iterations.count, 10u);
  EXPECT_NEAR(found.steps.share(Part::kCompute), 0.5, 0.001);
  EXPECT_NEAR(found.steps.share(Part::kSyncStall), 0.1, 0.001);
  EXPECT_NEAR(found.steps.share(Part::kCopy), 0.1, 0.001);
  // Idle: 19 ms in the data loader, whose workers nobody saw, 11 ms before launches.
  EXPECT_NEAR(found.steps.share(Part::kFetchStall) + found.steps.share(Part::kPrepStall), 0.19,
              0.001);
  EXPECT_NEAR(found.steps.share(Part::kIdle), 0.11, 0.001);
  ASSERT_EQ(found.accelerators.size(), 1u);
  const Accelerator& device = found.accelerators[0];
  EXPECT_EQ(device.compute_ns, 500 * kMs);
  EXPECT_EQ(device.communication_ns, 200 * kMs);
  EXPECT_NEAR(*device.communication_overlap, 0.5, 0.001);
  EXPECT_EQ(device.compute_ns + device.non_compute_ns + device.idle_ns, device.span_ns);
}

TEST(Breakdown, BeforeItsFirstWorkADeviceIsNotIdleForWantOfLaunches) {
  Accelerated a;
  a.program.made_by("import kineto");
  a.program.call(a.host, "cudaFree", Category::kLaunch, 900 * kMs);  // sets the device up
  a.program.call(a.host, "cudaLaunchKernel", Category::kLaunch, 20 * kMs);
  a.on(a.stream, "gemm", Category::kCompute, 910, 10);
  a.on(a.stream, "gemm", Category::kCompute, 930, 10);
  const auto found = explained(a.program.finish());
  expect_sums(found);
  EXPECT_EQ(found.whole[Part::kCompute], 20 * kMs);
  EXPECT_EQ(found.whole[Part::kIdle], 10 * kMs);
  EXPECT_EQ(cause(found, Part::kOther, "before the device's first work, or after its last"),
            910 * kMs);
  EXPECT_EQ(found.accelerators[0].span_ns, 30 * kMs);
  EXPECT_THAT(found.headline, testing::HasSubstr("spans 30.0 ms of the 940 ms recorded"));
  for (const Advice& advice : found.advice) {
    if (advice.id == "launch-bound") {
      EXPECT_NE(advice.state, Advice::State::kApplies);
    }
  }
  EXPECT_THAT(found.warnings, testing::Contains(testing::HasSubstr("mark steps")));
}

TEST(Breakdown, AHostInOneLongCallPreparesNoLaunches) {
  Accelerated a;
  for (int64_t i = 0; i < 4; ++i) {
    a.program.call(a.host, "cudaLaunchKernel", Category::kLaunch, 10 * kMs);
    a.on(a.stream, "gemm", Category::kCompute, 310 * i, 10);
    a.program.call(a.host, "cudaMalloc", Category::kLaunch, 300 * kMs);
  }
  const auto found = explained(a.program.finish());
  EXPECT_EQ(cause(found, Part::kIdle, "idle while the host is in cudaMalloc"), 900 * kMs);
}

TEST(Breakdown, IdleBehindAHostThatNobodySawIsNotLaunching) {
  Accelerated a;
  a.program.made_by("import kineto");
  for (int64_t i = 0; i < 4; ++i) {
    a.program.call(a.host, "cudaLaunchKernel", Category::kLaunch, 10 * kMs);
    a.on(a.stream, "gemm", Category::kCompute, 60 * i, 10);
    a.host.now_ns += 50 * kMs;
  }
  const auto found = explained(a.program.finish());
  expect_sums(found);
  EXPECT_EQ(cause(found, Part::kIdle, "idle while nobody saw the host"), 150 * kMs);
}

TEST(Breakdown, NoCauseIsListedTwice) {
  const auto found = twenty_steps([](ProgramForTest& p, Thread& main) {
    p.lock(main, 10 * kMs);
    p.call(main, "poll", Category::kSleep, 10 * kMs);
  });
  std::set<std::string> seen;
  for (const Cause& each : found.causes) EXPECT_TRUE(seen.insert(each.what).second) << each.what;
  EXPECT_GE(seen.size(), 2u);
}

// Whatever is recorded, nested wrongly, overlapping, unfinished, the parts add up.
TEST(Breakdown, PartsAddUpOnAnyRecording) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    ProgramForTest program;
    program.sample_each(seed % 2 == 0 ? kMs : 0);
    std::vector<Thread> threads;
    for (int i = 0; i < 4; ++i) threads.push_back(program.thread(100 + i % 2, 100 + i));
    constexpr std::array kSome{Category::kRead,       Category::kWrite,  Category::kLock,
                               Category::kSleep,      Category::kOffCpu, Category::kNetwork,
                               Category::kSync,       Category::kFault,  Category::kAnnotation,
                               Category::kCollective, Category::kStep,   Category::kDataWait};
    constexpr std::array kNames{"read", "step", "data", "futex", "checkpoint", "x"};
    for (int i = 0; i < 800; ++i) {
      Thread& thread = threads[random() % threads.size()];
      const Category category = kSome[random() % kSome.size()];
      const auto ns = static_cast<int64_t>(random() % (3 * kMs));
      program.writer().add({thread.track,
                            program.writer().name(kNames[random() % kNames.size()], category),
                            thread.now_ns, random() % 97 == 0 ? trace::kUnfinished : ns});
      program.run(thread, static_cast<int64_t>(random() % (2 * kMs)));
    }
    const Explanation found = explained(program.finish());
    expect_sums(found);
    for (size_t i = 0; i < kParts; ++i) {
      EXPECT_GE(found.whole.ns[i], 0);
      EXPECT_LE(found.whole.share(static_cast<Part>(i)), 1.0);
    }
  }
}

TEST(Breakdown, AnEmptyRecordingSaysSo) {
  ProgramForTest program;
  const Explanation found = explained(program.finish());
  EXPECT_TRUE(found.drivers.empty());
  EXPECT_FALSE(found.iterations.is_found);
  EXPECT_FALSE(found.iterations.reason.empty());
}

}  // namespace
}  // namespace forebay::explain
