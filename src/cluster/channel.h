// Messages between the processes of a run: what a World needs of MPI, and no more.
//
// One caller at a time. Messages of one process to another arrive in the order they were sent.
#pragma once

#include <optional>
#include <string>

#include "forebay/result.h"

namespace forebay::cluster {

class Channel {
 public:
  struct Message {
    int from = 0;
    std::string bytes;
  };

  virtual ~Channel() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Returns at once; the bytes go out during later calls.
  virtual Status send(int to, std::string bytes) = 0;
  // The next message that is whole, from anybody; nothing when there is none. Never waits.
  virtual Result<std::optional<Message>> receive() = 0;
  virtual bool has_unsent() const = 0;

  // Nothing is sent or received any more. `in_order`: all processes close now, so that the
  // transport may wait for them; otherwise it is left as it is.
  virtual void close(bool in_order) = 0;
};

}  // namespace forebay::cluster
