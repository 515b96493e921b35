// Each rule: a program with that illness gets that advice first, and a healthy one gets none. Also
// ranks, files, disks, swarms and their comparison.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "explain/explain.h"
#include "explain/program_for_test.h"
#include "explain/rules.h"

namespace forebay::explain {
namespace {

using testing::HasSubstr;
using testing::Not;
using trace::Category;
using Thread = ProgramForTest::Thread;
constexpr int64_t kMs = 1'000'000, kUs = 1'000;

Explained explained(trace::Recording recording) {
  auto result = explain(recording, {});
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return std::move(result).take();
}

const Advice& advice_of(const Explanation& found, std::string_view id) {
  for (const Advice& advice : found.advice) {
    if (advice.id == id) return advice;
  }
  ADD_FAILURE() << id;
  return found.advice.front();
}

void expect_first(const Explanation& found, std::string_view id) {
  ASSERT_FALSE(found.advice.empty());
  EXPECT_EQ(found.advice[0].id, id)
      << found.headline << "; " << found.advice[0].title << "; " << advice_of(found, id).evidence;
  EXPECT_EQ(found.advice[0].state, Advice::State::kApplies);
  EXPECT_FALSE(found.advice[0].remedies.empty());
  EXPECT_LE(found.advice[0].gain_ns, found.recording.duration_ns);
  EXPECT_LE(found.advice[0].gain_ns_per_step, found.iterations.mean_ns);
}

// Sixty marked steps on a thread of its own.
struct Training {
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  std::vector<Thread> workers;

  explicit Training(int worker_count = 0) {
    for (int i = 0; i < worker_count; ++i) {
      workers.push_back(program.thread(100, 101 + i, "worker"));
      program.open(workers.back(), "/d/index.json", 10 * kUs);
    }
  }
  void steps(const std::function<void(int)>& body, int count = 60) {
    for (int i = 0; i < count; ++i) {
      program.range(main, "step", Category::kStep, [&] { body(i); }, {program.number("step", i)});
    }
  }
  Explanation found() { return explained(program.finish()).explanation; }
};

TEST(Advice, HealthyGetsNothingToFix) {
  Training t;
  t.steps([&](int) { t.program.run(t.main, 50 * kMs); });
  const Explanation found = t.found();
  expect_first(found, "healthy");
  EXPECT_THAT(found.headline, HasSubstr("healthy"));
}

TEST(Advice, FewCores) {
  Training t;
  t.steps([&](int) {
    t.program.run(t.main, 30 * kMs);
    t.program.lose_core(t.main, 20 * kMs);
  });
  const Explanation found = t.found();
  expect_first(found, "few-cores");
  EXPECT_EQ(found.advice[0].gain_ns, 60 * 20 * kMs);
  EXPECT_EQ(found.advice[0].gain_ns_per_step, 20 * kMs);
  EXPECT_NE(advice_of(found, "healthy").state, Advice::State::kApplies);
}

// Whoever else uses the machine: the program's own illness comes first, the machine is a note.
TEST(Advice, ACrowdedMachineIsANoteBesideTheProgramsOwnIllness) {
  Training t;
  t.steps([&](int i) {
    t.program.read(t.main, "/d/" + std::to_string(i) + ".bin", 1 << 20, 20 * kMs);
    t.program.run(t.main, 30 * kMs);
    t.program.lose_core(t.main, 50 * kMs);
  });
  const Explanation found = t.found();
  EXPECT_NE(found.advice[0].id, "few-cores");
  EXPECT_EQ(advice_of(found, "few-cores").state, Advice::State::kApplies);
  EXPECT_THAT(found.headline, HasSubstr("limited by fetch stall: 20 %"));
  EXPECT_THAT(found.headline, HasSubstr("50 % ready, without a core: others have the cores"));
}

TEST(Advice, FewCoresBlamesOtherProgramsUnlessTheJobsThreadsRan) {
  for (const bool has_rivals : {false, true}) {
    Training t(4);
    t.steps([&](int) {
      for (Thread& worker : t.workers) {
        worker.now_ns = t.main.now_ns + 30 * kMs;
        t.program.open(worker, "/d/index.json", 10 * kUs);
        if (has_rivals) worker.now_ns += 20 * kMs - 20 * kUs;  // it computes
        if (!has_rivals) t.program.nap(worker, 20 * kMs - 20 * kUs);
        t.program.open(worker, "/d/index.json", 10 * kUs);
        t.program.nap(worker, 30 * kMs);
      }
      t.program.run(t.main, 30 * kMs);
      t.program.lose_core(t.main, 20 * kMs);
    });
    const Advice advice = advice_of(t.found(), "few-cores");
    EXPECT_EQ(advice.state, Advice::State::kApplies);
    ASSERT_FALSE(advice.remedies.empty());
    EXPECT_THAT(advice.remedies[0], HasSubstr(has_rivals ? "fewer threads" : "top -H"));
  }
}

TEST(Advice, SleepsAreNamedByTheCallsBeforeThem) {
  Training t;
  t.steps([&](int i) {
    t.program.run(t.main, 10 * kMs);
    t.program.read(t.main, "/throttled/" + std::to_string(i) + ".bin", 16384, 5 * kUs);
    t.program.nap(t.main, 40 * kMs);
  });
  const Explanation found = t.found();
  expect_first(found, "sleeps");
  EXPECT_THAT(found.advice[0].title, HasSubstr("asleep after calls on /throttled"));
  EXPECT_THAT(found.advice[0].evidence, HasSubstr("60 sleeps of 40"));
}

// The kernel's view of one sleep: the call, the time off the CPU inside it, a late return.
TEST(Advice, ASleepIsOneThoughItIsSeenInPieces) {
  Training t;
  t.steps([&](int i) {
    t.program.run(t.main, 10 * kMs);
    if (i % 2 == 0) t.program.read(t.main, "/throttled/a.bin", 16384, 5 * kUs);
    t.program.range(t.main, "clock_nanosleep", Category::kSleep, [&] {
      t.main.now_ns += 10 * kUs;
      t.program.call(t.main, "off cpu", Category::kOffCpu, 49 * kMs,
                     {{t.program.writer().key(trace::key::kReason, trace::ArgumentType::kText),
                       static_cast<int64_t>(t.program.writer().text("nanosleep"))}});
      t.program.lose_core(t.main, kMs);
      t.main.now_ns += 10 * kUs;
    });
  });
  EXPECT_THAT(advice_of(t.found(), "sleeps").evidence, HasSubstr("60 sleeps of 50.0 ms"));
}

TEST(Advice, TheDecodersGainLeavesOutTimeWithoutACore) {
  Training t;
  t.steps([&](int) {
    t.program.run(t.main, 10 * kMs);
    t.program.range(t.main, "decode", Category::kPrepare, [&] {
      t.program.run(t.main, 20 * kMs);
      t.program.lose_core(t.main, 20 * kMs);
    });
  });
  const Explanation found = t.found();
  const Advice& advice = advice_of(found, "python-decode");
  EXPECT_EQ(found.shown()[Part::kPrepStall], 60 * 40 * kMs);
  EXPECT_LE(advice.gain_ns, 60 * 20 * kMs);
  EXPECT_THAT(advice.evidence, HasSubstr("50 % of it without a core"));
}

TEST(Advice, SlowCallsOnFewFilesAreMetadata) {
  Training t;
  t.steps([&](int) {
    t.program.run(t.main, 20 * kMs);
    t.program.open(t.main, "/d/one.bin", 20 * kMs);
    t.program.read(t.main, "/d/one.bin", 1 << 20, 1 * kMs);
  });
  const Explanation found = t.found();
  const Advice& advice = advice_of(found, "slow-metadata");
  EXPECT_EQ(advice.state, Advice::State::kApplies);
  EXPECT_NEAR(static_cast<double>(advice.gain_ns), 0.9 * 60 * 20e6, 1e6);
  EXPECT_THAT(advice.evidence, HasSubstr("/d/one.bin"));
}

// In a range that is named for fetching too.
TEST(Advice, OpeningIsNotToldAsReading) {
  for (const bool is_in_range : {false, true}) {
    Training t;
    t.steps([&](int i) {
      const std::string path = "/d/" + std::to_string(i) + ".bin";
      const auto fetch = [&] {
        t.program.open(t.main, path, 40 * kMs);
        t.program.read(t.main, path, 1 << 20, 2 * kMs);
      };
      if (is_in_range) {
        t.program.range(t.main, "fetch", Category::kAnnotation, fetch);
      } else {
        fetch();
      }
      t.program.run(t.main, 58 * kMs);
    });
    const Explanation found = t.found();
    const Advice& advice = advice_of(found, "no-read-ahead");
    EXPECT_THAT(advice.evidence, HasSubstr("reads itself for 2 % of the time"));
    EXPECT_THAT(advice.evidence, HasSubstr("asks about files for 40 %"));
    EXPECT_THAT(advice.title, HasSubstr("opens and reads"));
  }
}

TEST(Advice, ImportsBeforeTheFirstReadOfDataAreStartUp) {
  Training t;
  for (int i = 0; i < 100; ++i) {
    t.program.open(t.main, "/usr/lib/python3/m" + std::to_string(i) + ".pyc", 10 * kUs);
    t.program.run(t.main, 4 * kMs);
  }
  const int64_t started_ns = t.main.now_ns - 1'000'000'000;
  t.program.read(t.main, "/d/a.bin", 1 << 20, 10 * kUs);
  t.program.run(t.main, 50 * kMs);
  t.program.open(t.main, "/usr/lib/python3/late.pyc", 10 * kUs);
  const Explanation found = t.found();
  int64_t start_ns = 0;
  for (const Cause& cause : found.causes) {
    if (cause.what.find("starting") == 0) start_ns = cause.ns;
  }
  EXPECT_NEAR(static_cast<double>(start_ns), static_cast<double>(started_ns), 5e6);
}

TEST(Advice, ASeedReadBetweenImportsEndsNoStartUp) {
  Training t;
  for (int i = 0; i < 100; ++i) {
    t.program.open(t.main, "/usr/lib/python3/m" + std::to_string(i) + ".pyc", 10 * kUs);
    t.program.run(t.main, 4 * kMs);
    if (i == 20) t.program.read(t.main, "/dev/urandom", 32, 5 * kUs);
  }
  t.program.read(t.main, "/d/a.bin", 1 << 20, 10 * kUs);
  t.program.run(t.main, 50 * kMs);
  int64_t start_ns = 0;
  const Explanation found = t.found();
  for (const Cause& cause : found.causes) {
    if (cause.what.find("starting") == 0) start_ns = cause.ns;
  }
  EXPECT_NEAR(static_cast<double>(start_ns), 400e6, 6e6);
}

// More memory for the interpreter, for which another thread's fault is waited.
// It asks another program something, and reads its settings; then it goes on loading modules.
TEST(Advice, AQuestionToAChildBetweenImportsEndsNoStartUp) {
  Training t;
  const auto import = [&](int count) {
    for (int i = 0; i < count; ++i) {
      t.program.open(t.main, "/usr/lib/python3/m" + std::to_string(i) + ".py", 20 * kUs);
      t.program.run(t.main, kMs);
    }
  };
  import(500);
  t.program.call(t.main, "wait4", Category::kSleep, 20 * kMs);
  t.program.read(t.main, "/home/u/settings.json", 500, 10 * kUs);
  import(1000);
  for (int i = 0; i < 60; ++i) {
    t.program.read(t.main, "/d/" + std::to_string(i) + ".bin", 1 << 20, 2 * kMs);
    t.program.run(t.main, 10 * kMs);
  }
  import(3);  // long after that
  const Explanation found = t.found();
  const double expected = static_cast<double>(1500 * (kMs + 20 * kUs));
  ASSERT_TRUE(found.iterations.is_found) << found.iterations.reason;
  EXPECT_NEAR(static_cast<double>(found.iterations.count), 60, 1);
  const auto start_ns = static_cast<double>(found.drivers[0].whole[Part::kOther]);
  EXPECT_NEAR(start_ns, expected, 0.02 * expected);
}

TEST(Advice, AWaitForMemoryBetweenImportsEndsNoStartUp) {
  Training t;
  const auto import = [&](int i) {
    t.program.open(t.main, "/usr/lib/python3/m" + std::to_string(i) + ".pyc", 10 * kUs);
    t.program.run(t.main, 4 * kMs);
  };
  for (int i = 0; i < 50; ++i) import(i);
  t.program.call(t.main, "off cpu", Category::kOffCpu, 19 * kMs,
                 {{t.program.writer().key(trace::key::kReason, trace::ArgumentType::kText),
                   static_cast<int64_t>(t.program.writer().text("brk"))}});
  for (int i = 50; i < 100; ++i) import(i);
  t.program.read(t.main, "/d/a.bin", 1 << 20, 10 * kUs);
  t.program.run(t.main, 50 * kMs);
  const Explanation found = t.found();
  int64_t start_ns = 0;
  for (const Cause& cause : found.causes) {
    if (cause.what.find("starting") == 0) start_ns = cause.ns;
  }
  EXPECT_NEAR(static_cast<double>(start_ns), 400e6, 6e6);
}

TEST(Advice, ALocksGainLeavesOutWhatACoreWouldGive) {
  Training t(4);
  t.steps([&](int step) {
    Thread& turn = t.workers[static_cast<size_t>(step % 4)];
    t.program.run(turn, 10 * kMs);
    for (Thread& worker : t.workers) {
      if (&worker != &turn) t.program.lock(worker, turn.now_ns - worker.now_ns);
    }
    t.program.lock_until(t.main, turn.now_ns, turn);
    t.program.lose_core(t.main, 40 * kMs);
    for (Thread& worker : t.workers) t.program.lock(worker, t.main.now_ns - worker.now_ns);
  });
  const Explanation found = t.found();
  const Advice& locks = advice_of(found, "lock-contention");
  EXPECT_EQ(locks.state, Advice::State::kApplies);
  EXPECT_LE(locks.gain_ns, found.shown()[Part::kPrepStall]);
}

TEST(Advice, CoresAreNotJudgedWhereNobodySawTheScheduler) {
  Training t;
  t.steps([&](int) { t.program.run(t.main, 50 * kMs); });
  EXPECT_EQ(advice_of(t.found(), "few-cores").state, Advice::State::kNoEvidence);
}

// The reads of a trace that holds only reads hide behind nothing that was seen.
TEST(Advice, GainsAreBoundedByWhatWasSeen) {
  ProgramForTest program;
  program.made_by("import dftracer");
  Thread main = program.thread(100, 100);
  for (int i = 0; i < 20; ++i) {
    program.read(main, "/d/a", 64 << 20, 30 * kMs);
    main.now_ns += 60 * kMs;
  }
  const Explanation found = explained(program.finish()).explanation;
  EXPECT_EQ(advice_of(found, "no-read-ahead").gain_ns, 0);
}

TEST(Advice, SlowDisk) {
  Training t(2);
  const trace::TrackId disk = t.program.writer().add_track(trace::TrackKind::kBlockDevice,
                                                           t.program.host(), "sda", 8 << 20);
  t.steps([&](int) {
    for (Thread& worker : t.workers) {
      const int64_t begin = worker.now_ns;
      t.program.read(worker, "/d/records.bin", 1 << 20, 40 * kMs);
      t.program.writer().add(
          {disk, t.program.writer().name("read", Category::kBlockIo), begin, 39 * kMs},
          {t.program.number("bytes", 1 << 20), t.program.number("queue_ns", kMs / 2),
           t.program.number("tid", worker.tid)});
    }
    t.program.lock_until(t.main, t.workers[0].now_ns, t.workers[0]);
    t.program.run(t.main, 5 * kMs);
    for (Thread& worker : t.workers) t.program.lock(worker, t.main.now_ns - worker.now_ns);
  });
  const Explanation found = t.found();
  expect_first(found, "slow-disk");
  EXPECT_THAT(found.advice[0].title, HasSubstr("sda"));
  ASSERT_EQ(found.disks.size(), 1u);
  EXPECT_EQ(found.disks[0].requests, 120u);
  EXPECT_EQ(found.disks[0].device_p50_ns.value() / kMs, 39);
  EXPECT_EQ(found.disks[0].queue_mean_ns, kMs / 2);
  EXPECT_GT(*found.disks[0].busy_share_in_stalls, 0.9);
  ASSERT_TRUE(found.read_latency.is_measured);
  EXPECT_EQ(found.read_latency.reads, 120u);
  EXPECT_EQ(found.read_latency.device_ns, 120 * 39 * kMs);
}

TEST(Advice, SmallFiles) {
  Training t(1);
  t.steps([&](int step) {
    Thread& worker = t.workers[0];
    for (int i = 0; i < 30; ++i) {
      const std::string path = "/d/" + std::to_string(step * 30 + i) + ".jpg";
      t.program.open(worker, path, 600 * kUs);
      t.program.read(worker, path, 8000, 300 * kUs);
    }
    t.program.lock_until(t.main, worker.now_ns, worker);
    t.program.run(t.main, 3 * kMs);
    t.program.lock(worker, t.main.now_ns - worker.now_ns);
  });
  const Explanation found = t.found();
  expect_first(found, "small-files");
  EXPECT_EQ(found.io.total.opens, 1801u);
  EXPECT_NEAR(found.io.total.metadata_share(), 0.66, 0.01);
}

TEST(Advice, PythonDecodeInTheTrainingThread) {
  Training t;
  t.program.sample_each(10 * kMs);
  t.steps([&](int) {
    t.program.read(t.main, "/d/a.bin", 1 << 16, 20 * kUs);
    t.program.run(t.main, 60 * kMs, "decode", "/home/u/train.py", true);
    t.program.run(t.main, 30 * kMs, "gemm");
  });
  const Explanation found = t.found();
  expect_first(found, "python-decode");
  EXPECT_THAT(found.advice[0].title, HasSubstr("Python"));
  EXPECT_THAT(found.advice[0].title, HasSubstr("train.py:88 decode()"));
  EXPECT_NEAR(found.steps.share(Part::kPrepStall), 0.667, 0.02);
}

// Two worker processes, begun anew at each epoch of 20 steps; the training thread's own part is to
// take batches from them.
Explanation with_worker_processes(std::string_view function, std::string_view module) {
  Training t;
  t.program.sample_each(kMs);
  int64_t pid = 200;
  t.steps([&](int step) {
    if (step % 20 == 0) {
      t.workers.clear();
      for (int i = 0; i < 2; ++i, ++pid) {
        t.program.call(t.main, "clone", Category::kProcess, 100 * kUs,
                       {t.program.number("child", pid)});
        t.workers.push_back(t.program.thread(pid, pid, "worker"));
        t.workers.back().now_ns = t.main.now_ns;
      }
    }
    t.program.run(t.main, 20 * kMs, function, module, true);
    t.program.run(t.main, 10 * kMs, "gemm");
    for (Thread& worker : t.workers) {
      t.program.run(worker, 5 * kMs, "decode", "/home/u/train.py", true);
      t.program.lock(worker, std::max<int64_t>(0, t.main.now_ns - worker.now_ns));
    }
  });
  return t.found();
}

TEST(Advice, WhereWorkersAreThereTheirNumberIsNotTheAdvice) {
  const Explanation found =
      with_worker_processes("_next_data", "/x/torch/utils/data/dataloader.py");
  const Advice& advice = advice_of(found, "python-decode");
  ASSERT_EQ(advice.state, Advice::State::kApplies);
  EXPECT_THAT(advice.title, HasSubstr("taking batches from 2 worker processes"));
  EXPECT_THAT(advice.remedies.at(0), HasSubstr("persistent_workers=True"));
  EXPECT_THAT(advice.remedies.at(0), HasSubstr("6 were begun, 2 at a time"));
  for (const std::string& remedy : advice.remedies) {
    EXPECT_THAT(remedy, Not(HasSubstr("num_workers")));
  }
}

// One worker has more to do than the rest of the step hides, four cores could.
TEST(Advice, TheNumberOfWorkersIsComputedAndNotTheOneThatIsThere) {
  Training t;
  t.program.call(t.main, "clone", Category::kProcess, 100 * kUs, {t.program.number("child", 200)});
  t.program.sample_each(kMs);
  Thread worker = t.program.thread(200, 200, "worker");
  worker.now_ns = t.main.now_ns;
  t.steps([&](int) {
    t.program.run(worker, 30 * kMs, "decode", "/home/u/train.py", true);
    t.program.lock_until(t.main, worker.now_ns, worker);
    t.program.run(t.main, 10 * kMs, "gemm", "/usr/lib/libtorch_cpu.so");
    t.program.lock(worker, t.main.now_ns - worker.now_ns);
  });
  const Explanation found = t.found();
  const Advice& advice = advice_of(found, "python-decode");
  ASSERT_EQ(advice.state, Advice::State::kApplies);
  EXPECT_THAT(advice.remedies.at(0), HasSubstr("num_workers=3, persistent_workers=True) (now 1)"));
}

// multiprocessing carries the message; its caller is who asked for it.
TEST(Advice, WhatCarriesMessagesIsNotBlamed) {
  Training t;
  trace::TraceWriter& writer = t.program.writer();
  const auto frame = [&](std::string_view symbol, std::string_view module) {
    return writer.frame({trace::FrameKind::kPython, writer.text(symbol), writer.text(module),
                         writer.text(""), 0, 7});
  };
  const trace::StackId outer = writer.stack(trace::kNoId, frame("load_batch", "/home/u/train.py"));
  const trace::StackId inner =
      writer.stack(outer, frame("recv", "/usr/lib/python3.11/multiprocessing/connection.py"));
  t.steps([&](int) {
    for (int i = 0; i < 30; ++i) {
      t.main.now_ns += kMs;
      writer.add({t.main.track, writer.name("sample", Category::kOnCpu, trace::EventKind::kSample),
                  t.main.now_ns, kMs},
                 {{writer.key(trace::key::kStack, trace::ArgumentType::kStack),
                   static_cast<int64_t>(inner)}});
    }
  });
  const Explanation found = t.found();
  const Advice& advice = advice_of(found, "python-decode");
  ASSERT_EQ(advice.state, Advice::State::kApplies);
  EXPECT_THAT(advice.title, HasSubstr("train.py:7 load_batch()"));
}

// Workers in turn; each hands over to the training thread what it made.
TEST(Advice, OneSlowWorker) {
  Training t(3);
  t.steps([&](int step) {
    for (Thread& worker : t.workers) {
      const bool is_slow = &worker == &t.workers[1];
      if (step % 3 == 0) t.program.run(worker, is_slow ? 90 * kMs : 4 * kMs);
    }
    Thread& next = t.workers[static_cast<size_t>(step % 3)];
    t.program.lock_until(t.main, next.now_ns, next);
    t.program.run(t.main, 3 * kMs);
    if (step % 3 == 2) {
      for (Thread& worker : t.workers) {
        t.program.lock(worker, std::max<int64_t>(0, t.main.now_ns - worker.now_ns));
      }
    }
  });
  const Explanation found = t.found();
  expect_first(found, "slow-worker");
  EXPECT_THAT(found.advice[0].title, HasSubstr("102"));
}

TEST(Advice, LockContention) {
  Training t(4);
  t.steps([&](int step) {
    // One decodes, the others wait for its lock.
    Thread& turn = t.workers[static_cast<size_t>(step % 4)];
    t.program.run(turn, 10 * kMs);
    for (Thread& worker : t.workers) {
      if (&worker != &turn) t.program.lock(worker, turn.now_ns - worker.now_ns);
    }
    t.program.lock_until(t.main, turn.now_ns, turn);
    t.program.run(t.main, kMs);
    for (Thread& worker : t.workers) t.program.lock(worker, t.main.now_ns - worker.now_ns);
  });
  expect_first(t.found(), "lock-contention");
}

// The main thread joins four that do all the work, one at a time under a lock; whoever else runs
// takes their cores half of the time. No worker fetches or decodes anything.
TEST(Advice, FourThreadsUnderOneLockAreThatWhoeverHasTheCores) {
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  program.run(main, kMs);
  std::vector<Thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.push_back(program.thread(100, 101 + i, "worker"));
    workers.back().now_ns = main.now_ns;
  }
  for (size_t turn = 0; turn < 240; ++turn) {
    const int64_t end_ns = workers[0].now_ns + 4 * kMs;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (i == turn % 4) {
        program.run(workers[i], 2 * kMs);
        program.lose_core(workers[i], 2 * kMs);
      } else {
        // Who had the lock before goes on outside of it, when it gets a core.
        if (i == (turn + 3) % 4) program.lose_core(workers[i], 2 * kMs);
        program.lock(workers[i], end_ns - workers[i].now_ns);
      }
    }
  }
  program.lock_until(main, workers[0].now_ns, workers[0]);
  const Explanation found = explained(program.finish()).explanation;
  expect_first(found, "lock-contention");
  EXPECT_FALSE(found.iterations.is_found);
  EXPECT_NEAR(found.whole.share(Part::kCompute), 0.125, 0.01);
  EXPECT_EQ(found.whole[Part::kPrepStall], 0);
  for (const Cause& cause : found.causes) {
    const double share =
        static_cast<double>(cause.ns) / static_cast<double>(found.whole.total_ns());
    const bool is_lock = cause.what == "its threads wait for each other";
    const bool is_ready = cause.what == "its threads are ready, but have no core";
    if (is_lock || is_ready) {
      EXPECT_NEAR(share, is_lock ? 0.625 : 0.25, 0.01);
    }
  }
  EXPECT_NE(advice_of(found, "decode-cpu").state, Advice::State::kApplies);
}

// Two of them always have something to do; the others wait for more.
TEST(Advice, WorkersThatWaitForWorkWaitForNoLock) {
  for (const std::string_view call : {"pthread_cond_wait", "pthread_mutex_lock"}) {
    Training t(6);
    t.steps([&](int step) {
      const int64_t end_ns = t.main.now_ns + 20 * kMs;
      for (size_t i = 0; i < t.workers.size(); ++i) {
        Thread& worker = t.workers[i];
        worker.now_ns = std::max(worker.now_ns, t.main.now_ns);
        const bool works = (i + static_cast<size_t>(step)) % 3 == 0;
        if (works) t.program.run(worker, end_ns - worker.now_ns);
        if (!works) t.program.call(worker, call, Category::kLock, end_ns - worker.now_ns);
      }
      t.program.lock_until(t.main, end_ns, t.workers[0]);
      t.program.run(t.main, kMs);
    });
    EXPECT_EQ(advice_of(t.found(), "lock-contention").state == Advice::State::kApplies,
              call == "pthread_mutex_lock");
  }
}

TEST(Advice, NamesALibraryOnlyToAProgramThatUsesItsKind) {
  for (const bool are_pictures : {false, true}) {
    Training t(2);
    t.steps([&](int) {
      for (Thread& worker : t.workers) {
        t.program.open(worker, are_pictures ? "/d/a.jpg" : "/d/a.npy", 10 * kUs);
        t.program.run(worker, 40 * kMs);
      }
      t.program.lock_until(t.main, t.workers[0].now_ns, t.workers[0]);
      t.program.run(t.main, 5 * kMs);
      for (Thread& worker : t.workers) t.program.lock(worker, t.main.now_ns - worker.now_ns);
    });
    const Advice advice = advice_of(t.found(), "decode-cpu");
    ASSERT_EQ(advice.remedies.size(), 2u);
    EXPECT_EQ(advice.remedies[1].find("libjpeg-turbo") != std::string::npos, are_pictures);
  }
  for (const bool is_torch : {false, true}) {
    Training t;
    if (is_torch) t.program.open(t.main, "/usr/lib/python3/dist-packages/torch/__init__.py", kUs);
    t.steps([&](int) {
      t.program.read(t.main, "/d/a", 1 << 20, 5 * kMs);
      t.program.run(t.main, 10 * kMs);
    });
    const Advice advice = advice_of(t.found(), "no-read-ahead");
    ASSERT_FALSE(advice.remedies.empty());
    EXPECT_EQ(advice.remedies[0].find("DataLoader") != std::string::npos, is_torch);
  }
}

TEST(Advice, DecodingNeedsMoreCpu) {
  Training t(2);
  t.steps([&](int) {
    for (Thread& worker : t.workers) t.program.run(worker, 40 * kMs);
    t.program.lock_until(t.main, t.workers[0].now_ns, t.workers[0]);
    t.program.run(t.main, 5 * kMs);
    for (Thread& worker : t.workers) t.program.lock(worker, t.main.now_ns - worker.now_ns);
  });
  expect_first(t.found(), "decode-cpu");
}

TEST(Advice, SlowLaterEpochs) {
  Training t;
  t.steps([&](int step) {
    t.program.range(t.main, "load", Category::kAnnotation, [&] {
      t.program.call(t.main, "read", Category::kRead, (step < 20 ? 2 : 30) * kMs,
                     {t.program.file("/d/a.bin"), t.program.number("bytes", 1 << 20),
                      t.program.number("cache_bytes", step < 20 ? 1 << 20 : 0)});
    });
    t.program.run(t.main, 50 * kMs);
  });
  const Explanation found = t.found();
  const Advice& advice = advice_of(found, "slow-later-epochs");
  EXPECT_EQ(advice.state, Advice::State::kApplies);
  EXPECT_THAT(advice.evidence, HasSubstr("fetch stall"));
  // 40 of 60 steps, 28 ms each; the disk, which the first ones did not wait for, comes second.
  EXPECT_NEAR(static_cast<double>(advice.gain_ns), 40 * 28e6, 1e6);
  EXPECT_LT(advice_of(found, "slow-disk").gain_ns, advice.gain_ns);
}

TEST(Pace, AChangeDuringTheRunIsToldWithItsPlaceAndWhatGrew) {
  Training t;
  t.steps(
      [&](int step) {
        for (int i = 0; i < (step < 40 ? 1 : 6); ++i) {
          t.program.read(t.main, "/d/a", 1 << 22, 3 * kMs + step % 5 * 100 * kUs);
        }
        t.program.run(t.main, 10 * kMs + step % 7 * 300 * kUs);
      },
      80);
  const Explanation found = t.found();
  ASSERT_TRUE(found.pace.has_value());
  EXPECT_EQ(found.pace->first_step, 41u);
  EXPECT_NEAR(static_cast<double>(found.pace->before_ns), 14.1e6, 0.4e6);
  EXPECT_NEAR(static_cast<double>(found.pace->after_ns), 30.1e6, 0.6e6);
  EXPECT_EQ(found.pace->part, Part::kFetchStall);
  EXPECT_NEAR(static_cast<double>(found.pace->part_ns), 16e6, 0.5e6);
  EXPECT_LT(found.pace->p, 1e-6);
  EXPECT_THAT(advice_of(found, "slow-later-epochs").title, HasSubstr("steps from"));
}

TEST(Phases, ASlowStretchIsToldWithItsPlaceItsFactorAndWhatGrew) {
  Training t;
  std::mt19937_64 random(11);
  t.steps(
      [&](int i) {
        const bool is_slow = i >= 40 && i < 60;
        t.program.read(t.main, "/d/" + std::to_string(i) + ".bin", 1 << 20,
                       (is_slow ? 60 : 10) * kMs + static_cast<int64_t>(random() % kMs));
        t.program.run(t.main, 40 * kMs + static_cast<int64_t>(random() % kMs));
      },
      90);
  const Explanation found = t.found();
  EXPECT_FALSE(found.pace);
  ASSERT_EQ(found.phases.size(), 1u);
  const SlowPhase& phase = found.phases[0];
  EXPECT_EQ(phase.first_step, 41u);
  EXPECT_EQ(phase.last_step, 60u);
  EXPECT_EQ(phase.n, 20u);
  EXPECT_NEAR(phase.factor(), 2, 0.1);
  EXPECT_EQ(phase.part, Part::kFetchStall);
  EXPECT_NEAR(static_cast<double>(phase.part_ns), 50e6, 2e6);
  EXPECT_EQ(phase.end_ns - phase.begin_ns, [&] {
    int64_t ns = 0;
    for (size_t i = 40; i < 60; ++i) {
      const Iteration& step = found.drivers[0].iterations[i];
      ns += step.end_ns - step.begin_ns;
    }
    return ns;
  }());
}

TEST(Phases, TwoStretchesAreTwoPhasesAndAChangeOfPaceIsNone) {
  Training two;
  const auto length = [](int i) { return (i >= 20 && i < 34) || (i >= 80 && i < 96) ? 90 : 50; };
  two.steps([&](int i) { two.program.run(two.main, (length(i) + i % 3) * kMs); }, 120);
  const Explanation found = two.found();
  ASSERT_EQ(found.phases.size(), 2u);
  EXPECT_EQ(found.phases[0].first_step, 21u);
  EXPECT_EQ(found.phases[0].last_step, 34u);
  EXPECT_EQ(found.phases[1].first_step, 81u);
  EXPECT_EQ(found.phases[1].last_step, 96u);
  Training change;
  change.steps([&](int i) { change.program.run(change.main, ((i < 60 ? 50 : 90) + i % 3) * kMs); },
               120);
  const Explanation changed = change.found();
  EXPECT_TRUE(changed.pace);
  EXPECT_TRUE(changed.phases.empty());
}

TEST(Phases, LongStepsNowAndThenAreNone) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Training t;
    std::mt19937_64 random(seed);
    t.steps([&](int) { t.program.run(t.main, (random() % 4 == 0 ? 90 : 50) * kMs); }, 120);
    EXPECT_TRUE(t.found().phases.empty()) << seed;
  }
}

TEST(Pace, SteadyNoisyAndCrowdedRunsHaveNoChange) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    std::lognormal_distribution<double> noisy(0, 0.8);
    Training t;
    t.steps(
        [&](int step) {
          t.program.read(t.main, "/d/a", 1 << 20, static_cast<int64_t>(noisy(random) * 3e6));
          t.program.run(t.main, static_cast<int64_t>(noisy(random) * 10e6));
          // Another program takes the core for the second half.
          if (step >= 60) t.program.lose_core(t.main, 20 * kMs);
        },
        120);
    EXPECT_FALSE(t.found().pace.has_value()) << "seed " << seed;
  }
}

// A version manager's shells, before training begins; what a recorder counted of their calls is
// told at the end of the recording.
TEST(Advice, TheShellsThatStartTrainingAreNoWorkers) {
  Training t;
  std::vector<Thread> shells;
  for (int i = 0; i < 5; ++i) {
    shells.push_back(t.program.thread(200 + i, 200 + i, "bash"));
    t.program.open(shells.back(), "/usr/bin/sed", 10 * kUs);
    t.program.run(shells.back(), 2 * kMs);
    t.program.open(shells.back(), "/usr/bin/sed", 10 * kUs);
  }
  t.program.run(t.main, 20 * kMs);
  t.workers.push_back(t.program.thread(100, 101, "worker"));
  t.steps([&](int) {
    Thread& worker = t.workers[0];
    worker.now_ns = t.main.now_ns;
    t.program.read(worker, "/d/a.jpg", 1 << 20, 5 * kMs);
    t.program.run(worker, 30 * kMs);
    t.program.lock_until(t.main, worker.now_ns, worker);
    t.program.run(t.main, 5 * kMs);
  });
  for (const Thread& shell : shells) {
    t.program.writer().add(
        {shell.track, t.program.writer().name("futex", Category::kLock, trace::EventKind::kInstant),
         t.main.now_ns, 0},
        {t.program.number("count", 3), t.program.number("total_ns", 900)});
  }
  const Explanation found = t.found();
  EXPECT_NE(advice_of(found, "decode-cpu").state, Advice::State::kApplies);
  EXPECT_NE(advice_of(found, "lock-contention").state, Advice::State::kApplies);
  EXPECT_THAT(advice_of(found, "slow-worker").evidence, HasSubstr("fewer than two loader"));
  EXPECT_NEAR(found.steps.share(Part::kPrepStall), 30.0 / 40, 0.02);
}

// On a crowded machine steps are short for a while, then short and long in turns.
TEST(Advice, StepsThatAreLongNowAndThenAreNoSlowdown) {
  Training t;
  t.steps([&](int step) {
    const bool is_long = step >= 8 && step % 2 == 0;
    t.program.read(t.main, "/d/a.bin", 1 << 20, is_long ? 60 * kMs : 10 * kMs);
    t.program.run(t.main, 20 * kMs);
  });
  EXPECT_EQ(advice_of(t.found(), "slow-later-epochs").state, Advice::State::kNotNeeded);
}

// Others take the cores for the second half: those of a worker, or of training that decodes itself.
TEST(Advice, StepsThatLackCoresLaterAreNoSlowdown) {
  for (const bool has_worker : {true, false}) {
    Training t(has_worker ? 1 : 0);
    t.steps([&](int step) {
      Thread& decoder = has_worker ? t.workers[0] : t.main;
      decoder.now_ns = std::max(decoder.now_ns, t.main.now_ns);
      const auto decode = [&] {
        t.program.read(decoder, "/d/a.jpg", 1 << 20, 2 * kMs);
        t.program.run(decoder, 20 * kMs);
        if (step >= 30) t.program.lose_core(decoder, 30 * kMs);
      };
      if (has_worker) {
        decode();
        t.program.lock_until(t.main, decoder.now_ns, decoder);
      } else {
        t.program.range(t.main, "decode", Category::kAnnotation, decode);
      }
      t.program.run(t.main, 5 * kMs);
    });
    EXPECT_EQ(advice_of(t.found(), "slow-later-epochs").state, Advice::State::kNotNeeded);
  }
}

// A loader that reads has little to run: a core that it lacks now and then explains no slow disk.
TEST(Advice, LaterEpochsThatReadLongerAreASlowdownOnACrowdedMachineToo) {
  Training t(1);
  t.steps([&](int step) {
    Thread& loader = t.workers[0];
    loader.now_ns = std::max(loader.now_ns, t.main.now_ns);
    for (int i = 0; i < 8; ++i) {
      t.program.read(loader, "/d/a.bin", 1 << 20, (step < 20 ? 1 : 5) * kMs);
      t.program.run(loader, 100 * kUs);
      t.program.lose_core(loader, 100 * kUs);
    }
    t.program.lock_until(t.main, loader.now_ns, loader);
    t.program.run(t.main, 5 * kMs);
  });
  EXPECT_EQ(advice_of(t.found(), "slow-later-epochs").state, Advice::State::kApplies);
}

TEST(Advice, TwoLongStepsAreNoEpochStarts) {
  Training t;
  t.steps([&](int step) {
    if (step == 7 || step == 23) t.program.read(t.main, "/d/a.bin", 1 << 20, 900 * kMs);
    t.program.run(t.main, 50 * kMs);
  });
  EXPECT_EQ(advice_of(t.found(), "epoch-start").state, Advice::State::kNotNeeded);
}

TEST(Advice, EpochStarts) {
  Training t;
  t.steps([&](int step) {
    if (step % 20 == 0) {
      for (int i = 0; i < 30; ++i) {
        t.program.call(t.main, "getdents64", Category::kMetadata, 100 * kMs);
      }
    }
    t.program.run(t.main, 50 * kMs);
  });
  const Explanation found = t.found();
  EXPECT_EQ(advice_of(found, "epoch-start").state, Advice::State::kApplies);
  EXPECT_NEAR(static_cast<double>(advice_of(found, "epoch-start").gain_ns), 0.9 * 3 * 3e9, 2e8);
}

TEST(Advice, CheckpointEveryKSteps) {
  Training t;
  t.steps([&](int step) {
    t.program.run(t.main, 20 * kMs);
    if (step % 5 == 4) {
      t.program.write(t.main, "/out/s.pt.tmp", 64 << 20, 60 * kMs);
      t.program.fsync(t.main, "/out/s.pt.tmp", 40 * kMs);
      t.program.call(t.main, "rename", Category::kMetadata, kMs, {t.program.file("/out/s.pt")});
    }
  });
  const Explanation found = t.found();
  expect_first(found, "checkpoint");
  EXPECT_THAT(found.advice[0].title, HasSubstr("every 5 steps"));
  EXPECT_NEAR(found.steps.share(Part::kCheckpoint), 0.5, 0.01);
}

TEST(Advice, MemoryThrash) {
  Training t;
  t.steps([&](int) {
    for (int i = 0; i < 10; ++i) {
      t.program.call(t.main, "page fault", Category::kFault, 2 * kMs,
                     {t.program.file("/d/table.bin"), t.program.number("offset", i * 4096)});
    }
    t.program.run(t.main, 10 * kMs);
  });
  const Explanation found = t.found();
  expect_first(found, "memory-thrash");
  EXPECT_NEAR(found.steps.share(Part::kFetchStall), 0.667, 0.01);
  EXPECT_EQ(found.io.total.faults, 600u);
}

TEST(Advice, MemoryPressureAloneIsEnough) {
  Training t;
  for (int i = 0; i < 40; ++i) {
    t.program.counter(t.program.host(), "pressure_memory_share", 1'000'000'000 + i * 50 * kMs, 0.4);
  }
  t.steps([&](int) { t.program.run(t.main, 30 * kMs); });
  EXPECT_EQ(advice_of(t.found(), "memory-thrash").state, Advice::State::kApplies);
}

TEST(Advice, SlowNetwork) {
  Training t(1);
  t.steps([&](int) {
    t.program.call(t.workers[0], "recvfrom", Category::kNetwork, 40 * kMs,
                   {t.program.file("10.0.0.9:9000"), t.program.number("bytes", 1 << 20)});
    t.program.lock_until(t.main, t.workers[0].now_ns, t.workers[0]);
    t.program.run(t.main, 5 * kMs);
    t.program.lock(t.workers[0], t.main.now_ns - t.workers[0].now_ns);
  });
  const Explanation found = t.found();
  expect_first(found, "slow-network");
  EXPECT_NEAR(found.steps.share(Part::kFetchStall), 40.0 / 45, 0.01);
}

// Workers and training pass batches through sockets of this host: waiting there is waiting for
// what the workers do.
TEST(Advice, SocketsBetweenProcessesAreNoNetwork) {
  for (const char* const socket : {"unix:/tmp/pymp/listener", "unix:[7]", "socket", "pipe"}) {
    Training t(1);
    t.steps([&](int) {
      const int64_t from_ns = t.workers[0].now_ns;
      t.program.run(t.workers[0], 40 * kMs);
      t.program.call(t.main, "read", Category::kNetwork, t.workers[0].now_ns - from_ns,
                     {t.program.file(socket), t.program.number("bytes", 100)});
      t.program.run(t.main, 5 * kMs);
      t.program.lock(t.workers[0], t.main.now_ns - t.workers[0].now_ns);
    });
    const Explanation found = t.found();
    EXPECT_EQ(advice_of(found, "slow-network").state, Advice::State::kNoEvidence) << socket;
    EXPECT_NEAR(found.steps.share(Part::kPrepStall), 40.0 / 45, 0.01) << socket;
  }
}

// What a program loads to begin with are small files, but nobody waits for them.
TEST(Advice, ASlowNetworkIsNotTheSmallFilesOfAProgram) {
  Training t(1);
  for (int i = 0; i < 40; ++i) {
    const std::string path = "/usr/lib/module-" + std::to_string(i) + ".pth";
    t.program.open(t.workers[0], path, 100 * kUs);
    t.program.read(t.workers[0], path, 3000, 100 * kUs);
  }
  t.program.lock_until(t.main, t.workers[0].now_ns, t.workers[0]);
  t.steps([&](int) {
    t.program.call(t.workers[0], "recvfrom", Category::kNetwork, 40 * kMs,
                   {t.program.file("10.0.0.9:9000"), t.program.number("bytes", 1 << 20)});
    t.program.lock_until(t.main, t.workers[0].now_ns, t.workers[0]);
    t.program.run(t.main, 5 * kMs);
    t.program.lock(t.workers[0], t.main.now_ns - t.workers[0].now_ns);
  });
  const Explanation found = t.found();
  expect_first(found, "slow-network");
  EXPECT_NE(advice_of(found, "small-files").state, Advice::State::kApplies);
}

TEST(Advice, PageCacheOnlyIsAWarning) {
  Training t;
  t.steps([&](int) {
    t.program.call(t.main, "read", Category::kRead, kMs,
                   {t.program.file("/d/a.bin"), t.program.number("bytes", 8 << 20),
                    t.program.number("cache_bytes", 8 << 20)});
    t.program.run(t.main, 50 * kMs);
  });
  const Explanation found = t.found();
  expect_first(found, "page-cache-only");
  EXPECT_TRUE(found.advice[0].is_warning);
  EXPECT_EQ(found.advice[0].gain_ns, 0);
}

// The interposer's calls do not say where bytes came from; the processes' counters only how many
// devices delivered.
TEST(Advice, NoShareOfThePageCacheIsToldWhereNoCallSaysIt) {
  Training t;
  t.steps([&](int) {
    t.program.call(t.main, "read", Category::kRead, kMs,
                   {t.program.file("/d/a.bin"), t.program.number("bytes", 8 << 20)});
    t.program.run(t.main, 50 * kMs);
  });
  const trace::TrackId process = t.program.process(100);
  t.program.counter(process, "device_read_bytes_per_second", 1'000'000'000, 0.0);
  const Explanation found = t.found();
  const Advice& advice = advice_of(found, "page-cache-only");
  EXPECT_EQ(advice.state, Advice::State::kApplies);
  EXPECT_THAT(advice.evidence, HasSubstr("devices of this host delivered 0 B of"));
  EXPECT_THAT(advice.evidence, Not(HasSubstr("%")));
  EXPECT_THAT(advice.title, Not(HasSubstr("page cache")));
}

TEST(Advice, NoReadAhead) {
  Training t;
  t.steps([&](int) {
    t.program.read(t.main, "/d/a.bin", 64 << 20, 30 * kMs);  // 2 GB/s: the disk is quick
    t.program.run(t.main, 60 * kMs);
  });
  expect_first(t.found(), "no-read-ahead");
}

TEST(Advice, FewReaders) {
  Training t(1);
  const trace::TrackId disk =
      t.program.writer().add_track(trace::TrackKind::kBlockDevice, t.program.host(), "nvme0n1", 1);
  t.steps([&](int) {
    const int64_t begin = t.workers[0].now_ns;
    t.program.read(t.workers[0], "/d/a.bin", 32 << 20, 40 * kMs);
    t.program.writer().add(
        {disk, t.program.writer().name("read", Category::kBlockIo), begin, 12 * kMs},
        {t.program.number("bytes", 32 << 20)});
    t.program.lock_until(t.main, t.workers[0].now_ns, t.workers[0]);
    t.program.run(t.main, 10 * kMs);
    t.program.lock(t.workers[0], t.main.now_ns - t.workers[0].now_ns);
  });
  EXPECT_EQ(advice_of(t.found(), "few-readers").state, Advice::State::kApplies);
}

// Per step of 100 ms on the device: what it computes, copies, exchanges; the host launches.
Explanation on_device(int64_t compute_ms, int64_t copy_ms, int64_t collective_ms) {
  ProgramForTest program;
  Thread host = program.thread(1, 1);
  const trace::TrackId device =
      program.writer().add_track(trace::TrackKind::kDevice, program.host(), "cuda:0", 0);
  const trace::TrackId stream =
      program.writer().add_track(trace::TrackKind::kStream, device, "stream 7", 7);
  Thread work{stream, host.now_ns, 0, 0};
  for (int i = 0; i < 20; ++i) {
    program.range(host, "step", Category::kStep,
                  [&] { program.call(host, "cudaLaunchKernel", Category::kLaunch, 100 * kMs); });
    program.call(work, "gemm", Category::kCompute, compute_ms * kMs);
    if (copy_ms > 0) program.call(work, "Memcpy HtoD", Category::kCopy, copy_ms * kMs);
    if (collective_ms > 0) {
      program.call(work, "ncclDevKernel_AllReduce", Category::kCollective, collective_ms * kMs);
    }
    work.now_ns = host.now_ns;
  }
  return explained(program.finish()).explanation;
}

TEST(Advice, HostDeviceCopies) {
  expect_first(on_device(60, 40, 0), "host-device-copy");
}
TEST(Advice, LaunchBound) {
  expect_first(on_device(40, 0, 0), "launch-bound");
}
TEST(Advice, ExposedCommunication) {
  expect_first(on_device(60, 0, 40), "exposed-communication");
}

// Two ranks of two hosts whose clocks differ by a minute; the second works longer.
struct Ranks {
  ProgramForTest first{"node1", 0}, second{"node2", 1};
  static constexpr int64_t kApart = 60'000'000'000;
  Ranks() {
    Thread a = first.thread(10, 10), b = second.thread(10, 10);
    for (int i = 0; i < 40; ++i) {
      const int64_t a_begin = a.now_ns, b_begin = b.now_ns;
      first.run(a, 20 * kMs);
      second.run(b, 35 * kMs);
      const int64_t together = std::max(a.now_ns, b.now_ns) + kMs;
      for (auto* each : {&a, &b}) {
        ProgramForTest& program = each == &a ? first : second;
        const int64_t shift = each == &a ? 0 : kApart;
        const int64_t begin = each == &a ? a_begin : b_begin;
        program.writer().add(
            {each->track, program.writer().name("all_reduce", Category::kCollective),
             each->now_ns + shift, together - each->now_ns},
            {program.number("sequence", i)});
        each->now_ns = together;
        program.writer().add({each->track, program.writer().name("step", Category::kStep),
                              begin + shift, together - begin});
      }
    }
    first.close();
    second.close();
  }
};

TEST(Ranks, ClocksAreAlignedByCollectivesAndTheUnevenRankIsNamed) {
  const Ranks ranks;
  const Explanation found =
      explained(ProgramForTest::load({&ranks.first, &ranks.second})).explanation;
  EXPECT_EQ(found.alignment.method, "collectives");
  EXPECT_EQ(found.alignment.matched, 40u);
  EXPECT_EQ(found.alignment.residual_ns, 0);
  ASSERT_EQ(found.drivers.size(), 2u);
  EXPECT_EQ(found.drivers[0].begin_ns, found.drivers[1].begin_ns);
  ASSERT_EQ(found.alignment.ranks.size(), 2u);
  EXPECT_EQ(found.alignment.ranks[1].clock_shift_ns, -Ranks::kApart);
  EXPECT_TRUE(found.alignment.ranks[1].is_straggler);
  EXPECT_FALSE(found.alignment.ranks[0].is_straggler);
  EXPECT_EQ(found.alignment.ranks[1].lateness_ns, 15 * kMs);
  EXPECT_EQ(found.alignment.ranks[1].last_share, 1.0);
  expect_first(found, "uneven-rank");
  EXPECT_THAT(found.advice[0].title, HasSubstr("rank 1"));
}

// Both ranks' waits are 600 ms each and gone at once: not 1.2 s of a run of 1.44 s.
TEST(Ranks, AGainIsOfOneRanksTime) {
  const Ranks ranks;
  const Explanation found =
      explained(ProgramForTest::load({&ranks.first, &ranks.second})).explanation;
  const Advice& advice = advice_of(found, "uneven-rank");
  EXPECT_NEAR(static_cast<double>(advice.gain_ns), 600e6, 1e6);
  EXPECT_NEAR(static_cast<double>(advice.gain_ns_per_step), 15e6, 1e5);
}

// Of few long steps the mean is above the median: the gain is part of the mean.
TEST(Advice, AGainIsPartOfTheMeanStep) {
  Training t;
  t.steps([&](int step) {
    if (step % 3 == 2) t.program.read(t.main, "/d/a.bin", 64 << 20, 300 * kMs);
    t.program.run(t.main, 10 * kMs);
  });
  const Explanation found = t.found();
  EXPECT_EQ(found.iterations.p50_ns, 10 * kMs);
  EXPECT_EQ(found.iterations.mean_ns, 110 * kMs);
  for (const Advice& advice : found.advice) {
    EXPECT_LE(advice.gain_ns_per_step, found.iterations.mean_ns) << advice.id;
    EXPECT_NEAR(static_cast<double>(advice.gain_ns_per_step),
                advice.gain_share * static_cast<double>(found.iterations.mean_ns), 1.0)
        << advice.id;
  }
}

TEST(Ranks, OneCanBeSelected) {
  const Ranks ranks;
  trace::Recording recording = ProgramForTest::load({&ranks.first, &ranks.second});
  auto result = explain(recording, {"", "1", ""});
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->explanation.drivers.size(), 1u);
  EXPECT_EQ(result->explanation.drivers[0].rank, 1);
  EXPECT_FALSE(explain(recording, {"", "7", ""}).ok());
}

TEST(Rules, EachSaysWhatItNeedsAndIsJudgedWithoutEvidenceToo) {
  ProgramForTest program;
  const Explanation found = explained(program.finish()).explanation;
  EXPECT_EQ(found.advice.size(), rules().size());
  std::set<std::string> ids;
  for (const Advice& advice : found.advice) {
    ids.insert(advice.id);
    EXPECT_EQ(advice.state, Advice::State::kNoEvidence) << advice.id;
    EXPECT_FALSE(advice.needs.empty() || advice.threshold.empty() ||
                 advice.threshold_source.empty() || advice.gain_formula.empty() ||
                 advice.evidence.empty())
        << advice.id;
  }
  EXPECT_EQ(ids.size(), rules().size());
}

TEST(Files, AreCountedByFileFolderAndFormat) {
  ProgramForTest program;
  Thread main = program.thread(1, 1);
  for (int i = 0; i < 10; ++i) {
    program.open(main, "/d/a.npz", 10 * kUs);
    program.call(main, "pread64", Category::kRead, (i + 1) * kMs,
                 {program.file("/d/a.npz"), program.number("bytes", 4096),
                  program.number("offset", i * 4096), program.number("cache_bytes", 1024)});
    program.call(main, "pread64", Category::kRead, kMs,
                 {program.file("/e/b.TFRecord"), program.number("bytes", 100),
                  program.number("offset", (i * 7919) % 1000)});
    program.call(main, "read", Category::kRead, kMs, {program.file("pipe")});
  }
  program.writer().add(
      {main.track, program.writer().name("read", Category::kRead, trace::EventKind::kInstant),
       main.now_ns, 0},
      {program.number("count", 1000), program.number("bytes", 4'000'000),
       program.number("total_ns", 5 * kMs), program.file("/d/a.npz")});
  const Io io = explained(program.finish()).explanation.io;
  ASSERT_TRUE(io.is_measured);
  EXPECT_EQ(io.total.reads, 1020u);  // the pipe is no file
  EXPECT_EQ(io.counted_only, 1000u);
  EXPECT_EQ(io.total.read_bytes, 40'960u + 1000u + 4'000'000u);
  ASSERT_EQ(io.files.size(), 2u);
  EXPECT_EQ(io.files[0].name, "/d/a.npz");
  EXPECT_EQ(io.files[0].opens, 10u);
  EXPECT_NEAR(*io.files[0].sequential_share, 1.0, 1e-9);
  EXPECT_LT(*io.files[1].sequential_share, 0.2);
  EXPECT_EQ(io.files[0].cache_bytes, 10'240u);
  EXPECT_FALSE(io.files[1].cache_bytes.has_value());
  EXPECT_EQ(io.files[0].read_max_ns, 10 * kMs);
  ASSERT_EQ(io.formats.size(), 2u);
  EXPECT_EQ(io.formats[1].name, "tfrecord");
  EXPECT_EQ(io.folders[0].name, "/d");
}

IoUse sum_of(const std::vector<IoUse>& uses) {
  IoUse sum;
  for (const IoUse& use : uses) {
    sum.files += use.files;
    sum.opens += use.opens;
    sum.reads += use.reads;
    sum.writes += use.writes;
    sum.metadata += use.metadata;
    sum.syncs += use.syncs;
    sum.read_bytes += use.read_bytes;
    sum.written_bytes += use.written_bytes;
    sum.read_ns += use.read_ns;
    sum.write_ns += use.write_ns;
    sum.metadata_ns += use.metadata_ns;
    sum.sync_ns += use.sync_ns;
  }
  return sum;
}

// A flood as a recorder leaves it: some calls kept with their file, the others counted without it.
TEST(Files, CountedCallsAreInEveryTotal) {
  ProgramForTest program;
  Thread first = program.thread(1, 1), second = program.thread(1, 2);
  const auto counted = [&](const Thread& thread, std::string_view name, Category category,
                           int64_t count, int64_t bytes, int64_t bucket_ns) {
    program.writer().add(
        {thread.track, program.writer().name(name, category, trace::EventKind::kInstant),
         thread.now_ns, 0},
        {program.number("count", count), program.number("bytes", bytes),
         program.number("total_ns", count * bucket_ns), program.number("bucket_ns", bucket_ns)});
  };
  for (int i = 0; i < 30; ++i) {
    // Two of three of the first thread's reads are of x.npz; the second reads b.bin alone.
    const std::string_view path = i % 3 == 0 ? "/e/y.tar" : "/d/x.npz";
    program.open(first, path, kUs);
    program.read(first, path, 4096, kUs);
    program.write(first, "/out/log.txt", 10, kUs);
    program.fsync(first, "/out/log.txt", kUs);
    program.read(second, "/d/b.bin", 100, kUs);
    program.call(second, "recvfrom", Category::kNetwork, kUs, {program.number("bytes", 7)});
  }
  counted(first, "openat", Category::kMetadata, 70'001, 0, 512);
  counted(first, "read", Category::kRead, 60'000, 60'000 * 4096, 512);
  counted(first, "read", Category::kRead, 10'001, 10'001 * 4096, 1024);
  counted(first, "write", Category::kWrite, 1000, 10'000, 1024);
  counted(first, "fsync", Category::kSync, 31, 0, 1 << 20);
  counted(second, "read", Category::kRead, 5000, 500'000, 256);
  counted(second, "pread64", Category::kRead, 9, 90, 256);  // none was kept
  counted(second, "recvfrom", Category::kNetwork, 800, 5600, 256);
  const Explanation found = explained(program.finish()).explanation;
  const Io& io = found.io;
  EXPECT_EQ(io.total.opens, 30u + 70'001u);
  EXPECT_EQ(io.total.reads, 60u + 75'010u);
  EXPECT_EQ(io.total.read_bytes, 30u * 4196 + 70'001u * 4096 + 500'090u);
  EXPECT_EQ(io.total.writes, 1030u);
  EXPECT_EQ(io.total.written_bytes, 10'300u);
  EXPECT_EQ(io.total.syncs, 61u);
  EXPECT_EQ(io.total.read_ns, 60 * kUs + 60'000 * 512 + 10'001 * 1024 + 5009 * 256);
  EXPECT_EQ(io.counted_only, 70'001u + 70'001u + 1000u + 31u + 5009u);
  uint64_t sizes = 0;
  for (const auto& [size, count] : io.read_sizes) sizes += count;
  EXPECT_EQ(sizes, io.total.reads);
  for (const std::vector<IoUse>* uses : {&io.files, &io.folders, &io.formats}) {
    const IoUse sum = sum_of(*uses);
    EXPECT_EQ(sum.files, 4u);
    EXPECT_EQ(sum.opens, io.total.opens);
    EXPECT_EQ(sum.metadata, io.total.metadata);
    EXPECT_EQ(sum.reads, io.total.reads);
    EXPECT_EQ(sum.writes, io.total.writes);
    EXPECT_EQ(sum.syncs, io.total.syncs);
    EXPECT_EQ(sum.read_bytes, io.total.read_bytes);
    EXPECT_EQ(sum.written_bytes, io.total.written_bytes);
    EXPECT_EQ(sum.read_ns, io.total.read_ns);
    EXPECT_EQ(sum.write_ns, io.total.write_ns);
    EXPECT_EQ(sum.metadata_ns, io.total.metadata_ns);
    EXPECT_EQ(sum.sync_ns, io.total.sync_ns);
  }
  const auto named = [](const std::vector<IoUse>& uses, std::string_view name) {
    for (const IoUse& use : uses) {
      if (use.name == name) return use;
    }
    ADD_FAILURE() << "no row " << name;
    return IoUse{};
  };
  EXPECT_EQ(named(io.files, kNotKept).reads, 75'010u);
  EXPECT_EQ(named(io.files, "/d/b.bin").reads, 30u);
  // Shared out as that thread's kept calls are; what had none stands for itself.
  EXPECT_NEAR(static_cast<double>(named(io.formats, "npz").reads), 20 + 70'001 * 2 / 3.0, 2);
  EXPECT_NEAR(static_cast<double>(named(io.formats, "tar").opens), 10 + 70'001 / 3.0, 2);
  EXPECT_EQ(named(io.formats, "bin").reads, 5030u);
  EXPECT_EQ(named(io.formats, kNotKept).reads, 9u);
  EXPECT_EQ(named(io.folders, "/out").written_bytes, 10'300u);
  EXPECT_FALSE(io.total.sequential_share.has_value());  // others came between those that were kept
  const auto network = std::find_if(found.advice.begin(), found.advice.end(),
                                    [](const Advice& one) { return one.id == "slow-network"; });
  ASSERT_NE(network, found.advice.end());
  EXPECT_NE(network->evidence.find("830 sends and receives"), std::string::npos)
      << network->evidence;
}

Explained with_functions(int64_t decode_ns, std::string_view path,
                         std::string_view caller = "main") {
  ProgramForTest program;
  program.called_from(caller);
  program.sample_each(kMs);
  Thread main = program.thread(1, 1);
  for (int i = 0; i < 40; ++i) {
    program.range(main, "step", Category::kStep, [&] {
      program.run(main, decode_ns + (i % 3) * kMs, "decode_png", path);
      program.run(main, 20 * kMs + (i % 4) * kMs, "gemm", "/usr/lib/libblas.so");
    });
  }
  return explained(program.finish());
}

TEST(Swarms, HaveIdsThatHoldAcrossRuns) {
  const Explained a = with_functions(5 * kMs, "/home/a/libpng.so");
  const Explained b = with_functions(15 * kMs, "/opt/b/libpng.so");
  const auto id_of = [](const Explained& e, std::string_view symbol) {
    for (const Swarm& swarm : e.explanation.swarms) {
      if (swarm.symbol == symbol) return swarm.id;
    }
    return std::string();
  };
  EXPECT_EQ(id_of(a, "decode_png"), id_of(b, "decode_png"));
  EXPECT_NE(id_of(a, "decode_png"), id_of(a, "gemm"));
  EXPECT_NEAR(a.explanation.swarms[0].share, 21.5 / 27.5, 0.02);
}

// 25 ns of one kernel are 100 % compute, and no training.
// A call that is still under way, as recorders tell it.
void hang(ProgramForTest& program, Thread& thread, std::string_view name, Category category,
          int64_t ns, std::string_view file = "") {
  const trace::Argument unfinished = program.number(trace::key::kUnfinished, 1);
  if (file.empty()) return program.call(thread, name, category, ns, {unfinished});
  program.call(thread, name, category, ns, {unfinished, program.file(file)});
}

// A disk's requests and first readings may lie before the program's release and after its end.
TEST(Recording, LastsAsLongAsItsRecorderSays) {
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  program.run(main, 500 * kMs);
  program.nap(main, kMs);
  program.writer().fact(trace::fact::kRecorded, "400000000");
  EXPECT_EQ(explained(program.finish()).explanation.recording.duration_ns, 400 * kMs);
}

TEST(Hang, OfAProgramInOneCallIsTheVerdict) {
  ProgramForTest program;
  program.made_by("record", "ebpf");
  Thread main = program.thread(100, 100, "cat");
  program.open(main, "/nfs/a.bin", kMs);
  hang(program, main, "read", Category::kRead, 2000 * kMs, "/nfs/a.bin");
  const Explanation found = explained(program.finish()).explanation;
  EXPECT_EQ(found.under_way.count, 1u);
  EXPECT_THAT(found.headline, HasSubstr("hangs in read of /nfs/a.bin"));
  EXPECT_THAT(found.headline, HasSubstr("still running when the recording ended"));
}

TEST(Hang, AfterManyStepsIsFoundByItsLength) {
  Training t;
  t.steps([&](int) { t.program.run(t.main, 1000 * kMs); });
  hang(t.program, t.main, "recvfrom", Category::kNetwork, 11'000 * kMs, "tcp:10.0.0.1:29500");
  EXPECT_THAT(t.found().headline, HasSubstr("hangs in recvfrom of tcp:10.0.0.1:29500"));
}

// Training waits in its call for who hangs in a file; while others work it just waits.
TEST(Hang, IsWhereTheAwaitedThreadHangs) {
  for (const bool works : {false, true}) {
    Training t(2);
    t.steps([&](int) { t.program.run(t.main, 50 * kMs); });
    for (Thread& worker : t.workers) worker.now_ns = t.main.now_ns;
    if (works) {
      for (int i = 0; i < 400; ++i) t.program.read(t.workers[0], "/d/x.bin", 1 << 20, 50 * kMs);
    } else {
      hang(t.program, t.workers[0], "read", Category::kRead, 19'900 * kMs, "/nfs/b.bin");
    }
    hang(t.program, t.workers[1], "futex", Category::kLock, 20'000 * kMs);
    hang(t.program, t.main, "futex", Category::kLock, 20'000 * kMs);
    const Explanation found = t.found();
    if (works) {
      EXPECT_TRUE(found.under_way.hang.empty()) << found.under_way.hang;
      EXPECT_EQ(found.under_way.count, 2u);
    } else {
      EXPECT_THAT(found.headline, HasSubstr("hangs in read of /nfs/b.bin"));
      EXPECT_THAT(found.headline, HasSubstr("waited in futex"));
      EXPECT_EQ(found.under_way.count, 3u);
    }
  }
}

// `timeout 60 python3 ...`: it waits in a call that the recorder does not see; or sees, and then
// the launcher goes on to end as its child did.
TEST(Hang, BehindALauncherThatDoesNothingIsFound) {
  for (const bool is_seen : {false, true}) {
    ProgramForTest program;
    program.made_by("record", "interposer");
    Thread launcher = program.thread(100, 100, "timeout");
    program.call(launcher, "fork", Category::kMetadata, kMs, {program.number("child", 101)});
    Thread child = program.thread(101, 101, "python3");
    program.open(child, "/d/a.bin", kMs);
    hang(program, child, "read", Category::kRead, 2000 * kMs, "pipe:[7]");
    if (is_seen) {
      program.call(launcher, "rt_sigsuspend", Category::kSleep, 2000 * kMs);
      program.call(launcher, "wait4", Category::kSleep, 10 * kUs);
    }
    EXPECT_THAT(explained(program.finish()).explanation.headline,
                HasSubstr("hangs in read of pipe"));
  }
}

TEST(Hang, AShortCallAtTheEndIsNone) {
  Training t;
  t.steps([&](int) { t.program.run(t.main, 50 * kMs); });
  hang(t.program, t.main, "read", Category::kRead, 20 * kUs, "/d/x.bin");
  const Explanation found = t.found();
  EXPECT_EQ(found.under_way.count, 1u);
  EXPECT_TRUE(found.under_way.hang.empty());
}

TEST(Advice, AMomentOfWorkIsNotJudged) {
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  program.range(main, "forward", Category::kCompute, [&] { program.run(main, 25); });
  auto result = explain(*std::make_unique<trace::Recording>(program.finish()), {});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->explanation.headline, HasSubstr("nothing to judge"));
  EXPECT_NE(advice_of(result->explanation, "healthy").state, Advice::State::kApplies);
}

TEST(Advice, FilesWithoutASuffixAreCalledThat) {
  Training t;
  t.steps([&](int step) {
    for (int i = 0; i < 10; ++i) {
      const std::string path = "/d/part" + std::string(1, static_cast<char>('a' + i)) +
                               std::string(1, static_cast<char>('a' + step % 20));
      t.program.open(t.main, path, 200 * kUs);
      t.program.read(t.main, path, 8192, 500 * kUs);
    }
    t.program.run(t.main, 10 * kMs);
  });
  const Explanation found = t.found();
  EXPECT_THAT(advice_of(found, "small-files").evidence,
              HasSubstr("opens of files without a suffix"));
}

TEST(Swarms, OneWithoutIterationsIsComparedByTheSecond) {
  Training with;
  with.steps([&](int) { with.program.run(with.main, 50 * kMs); });
  Training without;
  without.program.range(without.main, "decode", Category::kPrepare,
                        [&] { without.program.run(without.main, 2'500 * kMs); });
  const Explained a = explained(with.program.finish()), b = explained(without.program.finish());
  ASSERT_FALSE(b.explanation.iterations.is_found);
  const Comparison both = compare(a.measured, b.measured, "a");
  EXPECT_EQ(both.unit, "second");
  for (const Change& row : both.rows) {
    EXPECT_NE(row.what, "iteration");
    if (row.what == "prep stall") {
      EXPECT_NEAR(row.after_ns, 1e9, 1e6);
    } else if (row.what == "compute") {
      EXPECT_NEAR(row.before_ns, 1e9, 1e6);
    }
  }
}

// A recording of hours, or with one event whose clock was wrong, has no window for each second.
TEST(Swarms, WindowsOfALongRecordingAreFewAndHoldASecondInTheMean) {
  ProgramForTest program;
  Thread main = program.thread(100, 100);
  program.read(main, "/d/a", 4096, kMs);
  program.nap(main, 20'000'000 * kMs);
  program.read(main, "/d/a", 4096, kMs);
  const Measured measured = explained(program.finish()).measured;
  double second = 0;
  for (size_t part = 0; part < kParts; ++part) {
    const std::vector<double>& ns = measured.by_second.rows[part].ns;
    ASSERT_LE(ns.size(), 10'000u);
    second += std::accumulate(ns.begin(), ns.end(), 0.0) / static_cast<double>(ns.size());
  }
  EXPECT_NEAR(second, 1e9, 1e6);
}

TEST(Swarms, WhatOnlyOneSideRecordedIsNotComparedWithNothing) {
  const Explained sampled = with_functions(5 * kMs, "/a/libpng.so");
  Training t;
  t.steps([&](int) {
    t.program.read(t.main, "/d/a", 1 << 20, 5 * kMs);
    t.program.run(t.main, 20 * kMs);
  });
  const Explained bare = explained(t.program.finish());
  ASSERT_TRUE(bare.explanation.swarms.empty());
  for (const bool is_first : {false, true}) {
    const Comparison both = is_first ? compare(sampled.measured, bare.measured, "a")
                                     : compare(bare.measured, sampled.measured, "a");
    EXPECT_TRUE(both.functions.empty());
    for (const Change& row : both.rows) EXPECT_TRUE(row.id.empty()) << row.what;
    EXPECT_THAT(both.notes, testing::Contains(HasSubstr("only one of the two recordings has any")));
  }
}

TEST(Swarms, ComparisonIsSignedAndTested) {
  const Explained a = with_functions(5 * kMs, "/a/libpng.so");
  const Explained b = with_functions(15 * kMs, "/a/libpng.so");
  const Comparison grew = compare(a.measured, b.measured, "a");
  const auto row = [](const Comparison& both, std::string_view what) {
    return *std::find_if(both.rows.begin(), both.rows.end(),
                         [&](const Change& change) { return change.what == what; });
  };
  EXPECT_NEAR(row(grew, "decode_png").difference_ns, 10e6, 0.5e6);
  EXPECT_TRUE(row(grew, "decode_png").is_significant);
  EXPECT_LT(*row(grew, "decode_png").p, 1e-6);
  EXPECT_EQ(row(grew, "decode_png").before_n, 40u);
  EXPECT_FALSE(row(grew, "gemm").is_significant);
  EXPECT_NEAR(row(grew, "iteration").difference_ns, 10e6, 0.5e6);
  EXPECT_NEAR(row(compare(b.measured, a.measured, "b"), "decode_png").difference_ns, -10e6, 0.5e6);
}

// Both runs compute alike to a thousandth, so that the test is sure of 0.8 %.
TEST(Swarms, ASureDifferenceThatIsSmallIsNotCalledSignificant) {
  const auto measured = [](int64_t compute_ns, int64_t read_ns) {
    Training t;
    t.steps([&](int i) {
      t.program.read(t.main, "/d/a", 1 << 20, read_ns);
      t.program.run(t.main, compute_ns + i % 7 * kUs);
    });
    return explained(t.program.finish()).measured;
  };
  const Comparison both =
      compare(measured(10'000 * kUs, 1 * kMs), measured(10'080 * kUs, 3 * kMs), "a");
  const auto row = [&](std::string_view what) {
    return *std::find_if(both.rows.begin(), both.rows.end(),
                         [&](const Change& change) { return change.what == what; });
  };
  EXPECT_LT(row("compute").p.value(), 1e-6);
  EXPECT_FALSE(row("compute").is_significant);
  EXPECT_TRUE(row("fetch stall").is_significant);
  EXPECT_TRUE(row("iteration").is_significant);
}

TEST(Swarms, AFunctionOfSeveralCallersIsOneOfTheFunctions) {
  const Explained a = with_functions(5 * kMs, "/a/libpng.so", "train");
  const Explained b = with_functions(15 * kMs, "/a/libpng.so", "validate");
  const Comparison both = compare(a.measured, b.measured, "a");
  const auto count = [](const std::vector<Change>& rows, std::string_view what) {
    return std::count_if(rows.begin(), rows.end(),
                         [&](const Change& change) { return change.what.starts_with(what); });
  };
  EXPECT_EQ(count(both.rows, "decode_png"), 2);
  ASSERT_EQ(count(both.functions, "decode_png"), 1);
  EXPECT_NEAR(both.functions[0].difference_ns, 10e6, 0.5e6);
  EXPECT_TRUE(both.functions[0].is_significant);
}

TEST(Swarms, MannWhitneyKnowsSameFromDifferent) {
  std::vector<double> a, b, c;
  for (int i = 0; i < 30; ++i) {
    a.push_back(i);
    b.push_back(i + 0.5);
    c.push_back(i + 20);
  }
  EXPECT_GT(*mann_whitney_p(a, b), 0.5);
  EXPECT_LT(*mann_whitney_p(a, c), 1e-5);
  EXPECT_EQ(*mann_whitney_p({1, 1, 1, 1}, {1, 1, 1, 1}), 1.0);
  EXPECT_FALSE(mann_whitney_p({1, 2, 3}, a).has_value());
}

TEST(Concurrency, WindowsGoToTheirLargestUse) {
  ProgramForTest program;
  Thread main = program.thread(1, 1);
  std::vector<trace::TrackId> cores;
  for (int i = 0; i < 4; ++i) {
    cores.push_back(program.writer().add_track(trace::TrackKind::kCore, program.host(), "cpu", i));
  }
  for (int i = 0; i <= 100; ++i) {
    // One core of four is busy for the first half.
    for (size_t core = 0; core < cores.size(); ++core) {
      program.counter(cores[core], "busy_share", 1'000'000'000 + i * 100 * kMs,
                      core == 0 && i <= 50 ? 0.3 : 0.0);
    }
  }
  program.run(main, 5'000 * kMs);
  program.read(main, "/d/a", 1, 2'000 * kMs);
  const Concurrency found = explained(program.finish()).explanation.concurrency;
  ASSERT_TRUE(found.is_measured);
  EXPECT_NEAR(found.by_busiest.user, 0.5, 0.02);
  EXPECT_NEAR(found.by_busiest.io_wait, 0.2, 0.02);
  EXPECT_NEAR(found.by_busiest.idle, 0.3, 0.02);
  // By the mean 0.3 / 4 is below the threshold: idle.
  EXPECT_NEAR(found.by_mean.user, 0.0, 0.02);
}

// Recorders write only what changed: a core that stays busy is told once.
TEST(Concurrency, AValueHoldsUntilTheNextOneSaysOtherwise) {
  ProgramForTest program;
  Thread main = program.thread(1, 1);
  const trace::TrackId core =
      program.writer().add_track(trace::TrackKind::kCore, program.host(), "cpu", 0);
  program.counter(core, "busy_share", 1'000'000'000, 0.0);
  program.counter(core, "busy_share", 2'000'000'000, 1.0);
  const trace::TrackId disk =
      program.writer().add_track(trace::TrackKind::kBlockDevice, program.host(), "sda", 8 << 20);
  program.counter(disk, "busy_share", 1'000'000'000, 0.2);
  program.counter(disk, "busy_share", 2'000'000'000, 0.8);
  program.run(main, 4'000 * kMs);
  program.read(main, "/d/a", 1, kMs);
  const Explanation found = explained(program.finish()).explanation;
  ASSERT_TRUE(found.concurrency.is_measured);
  EXPECT_TRUE(found.concurrency.is_of_host);
  EXPECT_NEAR(found.concurrency.by_busiest.user, 0.75, 0.03);
  EXPECT_NEAR(found.concurrency.by_busiest.idle, 0.25, 0.03);
  ASSERT_EQ(found.disks.size(), 1u);
  EXPECT_NEAR(found.disks[0].busy_share.value(), 0.65, 0.01);
  EXPECT_NEAR(found.disks[0].busy_share_in_stalls.value(), 0.8, 0.01);
}

}  // namespace
}  // namespace forebay::explain
