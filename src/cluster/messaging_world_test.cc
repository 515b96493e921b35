// Processes are threads with clocks of their own; messages go through memory.
#include "cluster/messaging_world.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "cluster/channel_for_test.h"
#include "cluster/group.h"

namespace forebay::cluster {
namespace {

using testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

std::vector<TestProcess> on_hosts(int count) {
  std::vector<TestProcess> processes;
  for (int i = 0; i < count; ++i) processes.push_back({fmt::format("host{}", i), 0});
  return processes;
}

TEST(World, EveryProcessGathersWhatAllGaveByRank) {
  for (const int size : {2, 3, 5, 16}) {
    std::atomic<int> right = 0;
    run_processes(on_hosts(size), [&](World& world, base::Clock&) {
      bool is_right = world.size() == size;
      for (int round = 0; round < 20; ++round) {
        // Long ones too, and empty ones.
        const auto text = [&](int rank) {
          return rank == round % size ? ""
                                      : std::string(static_cast<size_t>(rank * 500 + round), 'x');
        };
        const auto all = world.gather(text(world.rank()), {});
        is_right = is_right && all.ok() && all->size() == static_cast<size_t>(size);
        for (int rank = 0; is_right && rank < size; ++rank)
          is_right = (*all)[static_cast<size_t>(rank)] == text(rank);
      }
      for (int rank = 0; rank < size; ++rank)
        is_right = is_right && world.host_of(rank) == fmt::format("host{}", rank);
      if (is_right) ++right;
      EXPECT_TRUE(world.close(5));
    });
    EXPECT_EQ(right, size);
  }
}

TEST(World, OnlyProcessZeroGetsWhatIsGatheredThere) {
  run_processes(on_hosts(3), [&](World& world, base::Clock&) {
    const auto all = world.gather_at_first(fmt::format("from {}", world.rank()), {});
    ASSERT_TRUE(all.ok());
    if (world.rank() == 0) {
      EXPECT_THAT(*all, testing::ElementsAre("from 0", "from 1", "from 2"));
    } else {
      EXPECT_TRUE(all->empty());
    }
    EXPECT_TRUE(world.close(5));
  });
}

TEST(World, OffsetsOfClocksAreMeasuredWithinTheirUncertainty) {
  const std::vector<TestProcess> processes{
      {"a", 0}, {"b", 5 * kSecond}, {"b", 5 * kSecond}, {"c", -7200 * kSecond}, {"a", 0}};
  run_processes(processes, [&](World& world, base::Clock&) {
    for (int rank = 0; rank < world.size(); ++rank) {
      const ClockOffset offset = world.clock_offset(rank);
      const int64_t truth = processes[static_cast<size_t>(rank)].clock_shift_ns;
      EXPECT_LE(std::abs(offset.ns - truth), offset.uncertainty_ns) << rank;
      EXPECT_LT(offset.uncertainty_ns, kSecond);
    }
    EXPECT_EQ(first_on_host(world, 2), 1);
    EXPECT_EQ(first_on_host(world, 4), 0);
    EXPECT_TRUE(world.close(5));
  });
}

TEST(World, TheLatestMomentIsFoundAcrossUnequalClocks) {
  // Rank r arrives at 10 ms * r after a common start, by the true time; its clock is hours off.
  const std::vector<TestProcess> processes{{"a", 0}, {"b", 3600 * kSecond}, {"c", -3600 * kSecond}};
  const int64_t start = base::monotonic_clock().now_ns();
  run_processes(processes, [&](World& world, base::Clock&) {
    const int64_t shift = processes[static_cast<size_t>(world.rank())].clock_shift_ns;
    for (int last = 0; last < 3; ++last) {
      const int64_t late = world.rank() == last ? kSecond : 0;
      const int64_t mine = start + shift + late + 10'000'000 * world.rank();
      const auto latest = world.meet(mine, {});
      ASSERT_TRUE(latest.ok());
      const int64_t truth = start + shift + kSecond + 10'000'000 * last;
      const int64_t slack =
          world.clock_offset(1).uncertainty_ns + world.clock_offset(2).uncertainty_ns;
      if (world.rank() == last) {
        EXPECT_EQ(*latest, mine);  // exactly: the last one has waited for nobody
      } else {
        EXPECT_LE(std::abs(*latest - truth), slack);
      }
      EXPECT_GE(*latest, mine);
    }
    EXPECT_TRUE(world.close(5));
  });
}

TEST(World, ClocksAreMeasuredAgainWhileARunGoesOn) {
  run_processes(
      on_hosts(3),
      [&](World& world, base::Clock& clock) {
        for (int i = 0; i < 50; ++i) {
          const auto met = world.meet(clock.now_ns(), {});
          ASSERT_TRUE(met.ok()) << met.error().message;
        }
        EXPECT_TRUE(world.close(5));
      },
      0);
}

TEST(World, AFailureReachesThoseWhoWaitWithRankHostAndCause) {
  run_processes(on_hosts(4), [&](World& world, base::Clock&) {
    if (world.rank() == 2) {
      world.fail({ErrorCode::kCorruption, "record 7 is torn"});
    } else {
      const auto met = world.meet(1, {});
      ASSERT_FALSE(met.ok());
      EXPECT_EQ(met.error().code, ErrorCode::kCorruption);
      EXPECT_EQ(met.error().message, "rank 2 on host2: record 7 is torn");
    }
    ASSERT_TRUE(world.failure());
    EXPECT_THAT(world.failure()->message, HasSubstr("rank 2 on host2"));
    const auto words = world.last_words(fmt::format("bye {}", world.rank()), 5, 5);
    if (world.rank() == 0) {
      ASSERT_EQ(words.size(), 4u);
      for (int rank = 0; rank < 4; ++rank)
        EXPECT_EQ(words[static_cast<size_t>(rank)], fmt::format("bye {}", rank));
    }
    EXPECT_TRUE(world.close(5));
  });
}

TEST(World, AFailureReachesThoseWhoAreInNoCall) {
  run_processes(on_hosts(3), [&](World& world, base::Clock& clock) {
    if (world.rank() == 1) world.fail({ErrorCode::kIo, "disk gone"});
    EXPECT_FALSE(clock.sleep_until_ns(clock.now_ns() + 60 * kSecond, world.failed()));
    EXPECT_TRUE(world.close(5));
  });
}

TEST(World, TheFirstFailureCounts) {
  run_processes(on_hosts(2), [&](World& world, base::Clock&) {
    if (world.rank() == 1) {
      world.fail({ErrorCode::kIo, "first"});
      world.fail({ErrorCode::kIo, "second"});
    }
    EXPECT_EQ(world.gather("", {}).error().message, "rank 1 on host1: first");
    EXPECT_TRUE(world.close(5));
  });
}

TEST(World, AStopReleasesAWaitingProcess) {
  run_processes(on_hosts(2), [&](World& world, base::Clock&) {
    if (world.rank() == 1) return;
    std::stop_source stop;
    std::jthread later([&] { stop.request_stop(); });
    const auto met = world.meet(1, stop.get_token());
    ASSERT_FALSE(met.ok());
    EXPECT_EQ(met.error().code, ErrorCode::kCancelled);
  });
}

TEST(World, SomebodyWhoDoesNotComeIsNamedAndNotWaitedForAtTheEnd) {
  std::atomic<bool> over = false;
  run_processes(on_hosts(3), [&](World& world, base::Clock& clock) {
    if (world.rank() == 2) {
      while (!over) std::this_thread::yield();
      return;
    }
    std::stop_source stop;
    std::jthread watcher([&] {
      if (world.rank() != 0) return;
      while (world.waits_for(0.1).empty()) clock.sleep_until_ns(clock.now_ns() + 10'000'000, {});
      EXPECT_EQ(world.waits_for(0.1), "rank 2 on host2");
      stop.request_stop();
    });
    // Rank 1 hears from rank 0 that it is not the one to blame.
    EXPECT_FALSE(world.meet(1, stop.get_token()).ok() && world.rank() == 0);
    if (world.rank() == 1) return;
    watcher.join();
    world.fail({ErrorCode::kCancelled, "stopped"});
    const auto words = world.last_words("", 5, 0.02);
    EXPECT_FALSE(words[2].has_value());
    EXPECT_FALSE(world.close(0.05));
    over = true;
  });
}

TEST(World, NewsArePostedWithoutWaiting) {
  run_processes(on_hosts(3), [&](World& world, base::Clock&) {
    world.post("old");
    world.post(fmt::format("at {}", world.rank()));
    ASSERT_TRUE(world.gather("", {}).ok());  // carries them along: messages keep their order
    if (world.rank() == 0) {
      EXPECT_THAT(world.posted(), testing::ElementsAre("at 0", "at 1", "at 2"));
    }
    EXPECT_TRUE(world.close(5));
  });
}

// Members of all processes, unevenly many, meet; each gets the latest moment on its own clock.
TEST(WorldGroup, BarriersHoldOverAllMembersOfAllProcesses) {
  const std::vector<TestProcess> processes{{"a", 0}, {"b", 50 * kSecond}, {"b", 50 * kSecond}};
  std::atomic<int> wrong = 0, met_count = 0;
  run_processes(processes, [&](World& world, base::Clock& clock) {
    const int members = world.rank() + 1;
    const auto group = make_group(world, members);
    EXPECT_EQ(group->size(), members);
    std::vector<std::jthread> threads;
    for (int m = 0; m < members; ++m)
      threads.emplace_back([&, m] {
        int64_t before = 0;
        for (int round = 0; round < 200; ++round) {
          const int64_t now = clock.now_ns();
          const auto latest = group->barrier_max(m, now, {});
          if (!latest.ok() || *latest < now || *latest < before) ++wrong;
          if (latest.ok()) before = *latest;
          ++met_count;
        }
      });
    threads.clear();
    EXPECT_TRUE(world.close(5));
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(met_count, 6 * 200);
}

TEST(WorldGroup, LeavingReleasesMembersOfAllProcesses) {
  std::atomic<int> released = 0;
  run_processes(on_hosts(3), [&](World& world, base::Clock&) {
    const auto group = make_group(world, 2);
    std::vector<std::jthread> threads;
    for (int m = 0; m < 2; ++m)
      threads.emplace_back([&, m] {
        if (world.rank() == 1 && m == 1) {
          group->leave(m, {ErrorCode::kIo, "no such file"});
          return;
        }
        const auto met = group->barrier_max(m, 1, {});
        if (!met.ok() && met.error().code == ErrorCode::kCancelled) ++released;
      });
    threads.clear();
    ASSERT_TRUE(world.failure());
    EXPECT_THAT(world.failure()->message, HasSubstr("rank 1 on host1: no such file"));
    EXPECT_TRUE(world.close(5));
  });
  EXPECT_EQ(released, 5);
}

}  // namespace
}  // namespace forebay::cluster
