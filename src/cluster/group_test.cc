#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "cluster/group.h"

namespace forebay::cluster {
namespace {

TEST(Group, BarrierGivesEveryMemberTheLatestOfEachRound) {
  constexpr int kMembers = 4, kRounds = 500;
  const auto group = make_solo(kMembers);
  std::vector<std::jthread> members;
  std::atomic<int> wrong = 0;
  for (int m = 0; m < kMembers; ++m)
    members.emplace_back([&, m] {
      for (int64_t round = 0; round < kRounds; ++round) {
        const auto max = group->barrier_max(m, round * 10 + m, {});
        if (!max.ok() || *max != round * 10 + kMembers - 1) ++wrong;
      }
    });
  members.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(Group, LeavingReleasesTheOthers) {
  const auto group = make_solo(2);
  std::jthread waiter([&] {
    const auto met = group->barrier_max(0, 1, {});
    ASSERT_FALSE(met.ok());
    EXPECT_EQ(met.error().code, ErrorCode::kCancelled);
  });
  group->leave(1, {ErrorCode::kIo, "torn"});
}

TEST(Group, StopReleasesAWaitingMember) {
  const auto group = make_solo(2);
  std::stop_source stop;
  std::jthread waiter([&] { EXPECT_FALSE(group->barrier_max(0, 1, stop.get_token()).ok()); });
  stop.request_stop();
}

}  // namespace
}  // namespace forebay::cluster
