// A World over a Channel: process 0 collects, and sends everyone what came of it.
//
//   gather:  1..n-1 --mine--> 0 --all--> 1..n-1        fail: r --cause--> all, at any time
//
// As World. A thread of its own looks ten times a second for failures, so that processes which are
// in no call hear of them.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "cluster/channel.h"
#include "cluster/world.h"
#include "forebay/result.h"

namespace forebay::cluster {

struct MessagingOptions {
  std::string host;             // of this process
  int cpu_count = 1;            // with fewer than processes on this host, waits never spin
  double clock_seconds = 60;    // between two measurements of the clocks
  double wait_seconds_max = 0;  // that a call waits for another process; 0 = as long as it lives
  double patience_seconds = 5;  // after which process 0 tells those who wait that it waits too
};

// Waits for all processes: each learns the others' hosts. kUnsupported when another process speaks
// another version of these messages.
Result<std::unique_ptr<World>> open_messaging_world(std::unique_ptr<Channel> channel,
                                                    base::Clock& clock, MessagingOptions options,
                                                    std::stop_token stop);

}  // namespace forebay::cluster
