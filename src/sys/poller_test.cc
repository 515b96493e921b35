// The poller on a pair of pipes: no network.
#include "sys/poller.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace forebay::sys {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::pipe(ends.data()), 0);
    out = ScopedFd(ends[0]);
    in = ScopedFd(ends[1]);
  }
  ScopedFd out, in;
};

TEST(Poller, TellsWhichDescriptorIsReady) {
  const auto poller = Poller::open().take();
  const Pipe pipe;
  std::array<PollerEvent, 4> events;
  ASSERT_EQ(poller->watch(pipe.out.get(), true, false), 0);
  EXPECT_EQ(poller->wait(events, 0), 0u);
  ASSERT_EQ(::write(pipe.in.get(), "x", 1), 1);
  ASSERT_EQ(poller->wait(events, 1'000'000'000), 1u);
  EXPECT_EQ(events[0].fd, pipe.out.get());
  EXPECT_TRUE(events[0].is_readable);
  EXPECT_FALSE(events[0].is_writable);
  ASSERT_EQ(poller->watch(pipe.in.get(), false, true), 0);
  EXPECT_EQ(poller->wait(events, 1'000'000'000), 2u);
  poller->forget(pipe.out.get());
  ASSERT_EQ(poller->wait(events, 1'000'000'000), 1u);
  EXPECT_TRUE(events[0].is_writable);
  EXPECT_LT(poller->watch(-1, true, false), 0);
}

TEST(Poller, WakeEndsAWaitAndIsNotLostBeforeIt) {
  const auto poller = Poller::open().take();
  std::array<PollerEvent, 4> events;
  poller->wake();
  EXPECT_EQ(poller->wait(events, -1), 0u);
  std::jthread waker([&] { poller->wake(); });
  EXPECT_EQ(poller->wait(events, -1), 0u);
}

}  // namespace
}  // namespace forebay::sys
