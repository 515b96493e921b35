// How fast a drain may go: below a bandwidth, and not while a training loop waits for data.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <stop_token>

#include "base/clock.h"
#include "forebay/result.h"

namespace forebay::checkpoint {

class Pace {
 public:
  // 0: no bandwidth is given.
  Pace(base::Clock& clock, double bytes_per_second_max)
      : clock_(clock), bytes_per_second_max_(bytes_per_second_max) {}

  // Waits until `bytes` may be moved. kCancelled on a stop.
  Status admit(uint64_t bytes, const std::stop_token& stop);

 private:
  base::Clock& clock_;
  const double bytes_per_second_max_;
  int64_t free_ns_ = 0;  // when what was admitted has had its time
};

}  // namespace forebay::checkpoint
