// Who else takes part in a step: members meet at barriers and agree on the latest of their moments.
//
// Each member calls from its own thread, one call at a time; every member makes the same calls.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "forebay/result.h"

namespace forebay::cluster {

class Group {
 public:
  virtual ~Group() = default;

  virtual int size() const = 0;  // members in this process

  // Waits until all members, those of other processes included, have called, and returns the latest
  // of their moments. Moments are of this process's monotonic clock, in nanoseconds; those of other
  // hosts are converted, and a member that was the last gets its own moment back. kCancelled when a
  // stop is asked for or another member has left.
  virtual Result<int64_t> barrier_max(int member, int64_t moment_ns, std::stop_token stop) = 0;

  // A member that ends early leaves and says why: all waiting and later barriers return kCancelled,
  // in this process and in the others.
  virtual void leave(int member, const Error& why) = 0;
};

// Members are threads of this process.
std::unique_ptr<Group> make_solo(int size);

}  // namespace forebay::cluster
