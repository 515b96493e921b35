// A Channel over TCP for processes that know where the first of them is: torchrun's, srun's.
//
// Process 0 listens until all others have come; they talk to it alone, which is what a
// MessagingWorld does. A process that dies ends its connection; one that is stopped, or whose host
// is gone, is noticed by its silence.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "cluster/channel.h"
#include "forebay/result.h"

namespace forebay::cluster {

struct TcpMeeting {
  int rank = 0, size = 1;
  std::string host;  // of process 0
  // Process 0 takes the first of `ports` ports from this one on that is free.
  int port = 0, ports = 1;
  std::string key;               // processes with another one do not belong to this meeting
  double join_seconds = 300;     // until all have come
  double answer_seconds = 3;     // after which whoever listens at a port is not process 0
  double silence_seconds = 120;  // after which a process counts as gone
};

// kIo names who did not come, or what kept this process from joining.
Result<std::unique_ptr<Channel>> open_tcp_channel(const TcpMeeting& meeting, base::Clock& clock,
                                                  const std::stop_token& stop);

}  // namespace forebay::cluster
