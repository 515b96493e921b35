#include "sys/network.h"

#include <gtest/gtest.h>

namespace forebay::sys {
namespace {

constexpr std::string_view kDev =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n"
    "    lo: 900000     100    0    0    0     0          0         0   900000     100    0    0\n"
    "  eth0:  12345      10    0    0    0     0          0         0     6789      20    0    0\n"
    "eth1:100 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n";

TEST(Network, SumsReceivedAndSentOfTheInterfacesThatCount) {
  const NetworkBytes sum =
      sum_network_bytes(kDev, [](std::string_view interface) { return interface != "lo"; });
  EXPECT_EQ(sum.received, 12445u);
  EXPECT_EQ(sum.sent, 6796u);
}

TEST(Network, TheKernelTells) {
  EXPECT_TRUE(network_bytes().has_value());
}

}  // namespace
}  // namespace forebay::sys
