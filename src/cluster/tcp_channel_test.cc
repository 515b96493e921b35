// Processes that are threads meet over the loopback address. What else happens there is no part of
// the meeting; whoever goes is named to all the others.
#include "cluster/tcp_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "cluster/messaging_world.h"
#include "sys/tcp.h"

namespace forebay::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A port that was free just now, for the meeting of a test; others are tried behind it.
TcpMeeting meeting_of(int size) {
  const auto socket = sys::listen_tcp("localhost", 0).take();
  return {.size = size,
          .host = "localhost",
          .port = std::min(sys::port_of(socket).take(), 65000),
          .ports = 16,
          .key = "test",
          .answer_seconds = 0.2};
}

Result<std::unique_ptr<World>> join(TcpMeeting meeting, int rank,
                                    base::Clock& clock = base::monotonic_clock()) {
  meeting.rank = rank;
  auto channel = FB_TRY(open_tcp_channel(meeting, base::monotonic_clock(), {}));
  return open_messaging_world(std::move(channel), clock,
                              {.host = "host", .cpu_count = 0, .wait_seconds_max = 1000}, {});
}

void run_ranks(int size, const std::function<void(int rank)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
}

TEST(TcpChannel, RanksGatherLongAndEmptyWordsAndPart) {
  const TcpMeeting meeting = meeting_of(4);
  run_ranks(4, [&](int rank) {
    auto world = join(meeting, rank);
    ASSERT_TRUE(world.ok()) << world.error().message;
    const std::string mine(rank == 2 ? 5 << 20 : static_cast<size_t>(rank), 'x');
    for (int round = 0; round < 3; ++round) {
      const auto all = (*world)->gather(mine, {});
      ASSERT_TRUE(all.ok()) << all.error().message;
      EXPECT_THAT(*all, ElementsAre("", "x", std::string(5 << 20, 'x'), "xxx"));
    }
    // The others still take the last answer.
  });
}

TEST(TcpChannel, StrangersAtThePortsAreNoRanks) {
  const TcpMeeting meeting = meeting_of(2);
  // One listens at the first port and says nothing; another comes to rank 0 and talks nonsense.
  const auto taken = sys::listen_tcp("localhost", meeting.port);
  if (!taken.ok()) GTEST_SKIP() << "the port went to somebody else";
  run_ranks(3, [&](int rank) {
    if (rank == 2) {
      for (int port = meeting.port + 1; port < meeting.port + 16; ++port) {
        const auto socket = sys::connect_tcp("localhost", port, 1'000'000'000);
        const std::string text = "GET / HTTP/1.1\r\n\r\n";
        if (socket.ok()) sys::send_some(*socket, std::as_bytes(std::span(text))).ok();
      }
      return;
    }
    const auto world = join(meeting, rank);
    ASSERT_TRUE(world.ok()) << world.error().message;
    EXPECT_TRUE((*world)->gather("a", {}).ok());
  });
}

TEST(TcpChannel, WhoeverGoesIsNamedToAll) {
  const TcpMeeting meeting = meeting_of(3);
  run_ranks(3, [&](int rank) {
    auto world = join(meeting, rank);
    ASSERT_TRUE(world.ok()) << world.error().message;
    ASSERT_TRUE((*world)->gather("a", {}).ok());
    if (rank == 1) return;
    const auto all = (*world)->gather("b", {});
    EXPECT_EQ(all.error().code, ErrorCode::kIo);
    EXPECT_THAT(all.error().message, HasSubstr("rank 1 ("));
    EXPECT_THAT(all.error().message, HasSubstr("is gone"));
    EXPECT_FALSE((*world)->gather("c", {}).ok()) << "for good";
  });
}

TEST(TcpChannel, WhoeverDoesNotComeIsNamed) {
  TcpMeeting meeting = meeting_of(3);
  meeting.join_seconds = 0.5;
  run_ranks(2, [&](int rank) {
    const auto world = join(meeting, rank);
    ASSERT_FALSE(world.ok());
    if (rank == 0) {
      EXPECT_THAT(world.error().message, HasSubstr("of 3 ranks, these did not come"));
    }
  });
}

// A clock that the test moves on.
class MovedClock final : public base::Clock {
 public:
  int64_t now_ns() const override { return base::monotonic_clock().now_ns() + moved_ns_; }
  bool sleep_until_ns(int64_t deadline_ns, std::stop_token stop) override {
    return base::monotonic_clock().sleep_until_ns(deadline_ns - moved_ns_, std::move(stop));
  }
  void move_on(int64_t ns) { moved_ns_ += ns; }

 private:
  std::atomic<int64_t> moved_ns_ = 0;
};

TEST(TcpChannel, AWaitForOneThatLivesEnds) {
  const TcpMeeting meeting = meeting_of(2);
  MovedClock clock;
  std::atomic<bool> has_ended = false;
  run_ranks(2, [&](int rank) {
    auto world = rank == 0 ? join(meeting, rank, clock) : join(meeting, rank);
    ASSERT_TRUE(world.ok()) << world.error().message;
    if (rank == 0) {
      const auto all = (*world)->gather("a", {});
      EXPECT_THAT(all.error().message, HasSubstr("seconds for rank 1 on host"));
      has_ended = true;
    }
    while (!has_ended) {
      clock.move_on(2000'000'000'000);
      base::monotonic_clock().sleep_until_ns(base::monotonic_clock().now_ns() + 1'000'000, {});
    }
  });
}

TEST(TcpChannel, SilenceIsAnEnd) {
  TcpMeeting meeting = meeting_of(2);
  std::latch done(2);
  run_ranks(2, [&](int rank) {
    TcpMeeting mine = meeting;
    mine.rank = rank;
    if (rank == 0) mine.silence_seconds = 0.3;
    auto channel = open_tcp_channel(mine, base::monotonic_clock(), {});
    ASSERT_TRUE(channel.ok()) << channel.error().message;
    if (rank == 0) {  // the other does not look, and so sends nothing
      Result<std::optional<Channel::Message>> got = std::optional<Channel::Message>();
      while (got.ok() && !*got) got = (*channel)->receive();
      ASSERT_FALSE(got.ok());
      EXPECT_THAT(got.error().message, HasSubstr("has not been heard of"));
    }
    done.arrive_and_wait();
  });
}

}  // namespace
}  // namespace forebay::cluster
