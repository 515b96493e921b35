// Who else takes part in a run: members meet at barriers and reduce values.
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

  virtual int size() const = 0;

  // Waits until all members have called and returns the largest `value` among them. kCancelled when
  // a stop is asked for or another member has left.
  virtual Result<int64_t> barrier_max(int member, int64_t value, std::stop_token stop) = 0;

  // A member that ends early leaves: all waiting and later barriers return kCancelled.
  virtual void leave(int member) = 0;
};

// Members are threads of this process.
std::unique_ptr<Group> make_solo(int size);

}  // namespace forebay::cluster
