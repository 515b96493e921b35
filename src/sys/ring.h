// io_uring: many reads in flight from one thread, without a thread per read.
//
// One thread at a time, except wake().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "forebay/result.h"

namespace forebay::sys {

struct RingRead {
  int fd = -1;
  std::span<std::byte> out;
  uint64_t offset = 0;
  uint64_t tag = 0;            // below kRingTagMax
  bool is_registered = false;  // `out` lies inside the registered buffer
};
constexpr uint64_t kRingTagMax = uint64_t{1} << 62;

struct RingEvent {
  uint64_t tag = 0;
  int64_t result = 0;  // bytes read or -errno
};

class Ring {
 public:
  // kUnsupported with the kernel's reason when there is no io_uring here, or when the environment
  // variable FOREBAY_DISABLE_IO_URING is set to anything but "" or "0".
  static Result<std::unique_ptr<Ring>> open(unsigned entries);
  ~Ring();  // nothing may be in flight: the kernel would write into freed buffers

  // Spares the kernel mapping `buffer` at each read. Refused when memory may not be locked.
  Status register_buffer(std::span<std::byte> buffer);

  // Queues one read for the next enter(). At most `entries` may be in flight.
  void prepare(const RingRead& read);

  // Starts what was prepared and takes what is finished. Waits for at least one event or a wake()
  // when `wait`; the count of events.
  Result<size_t> enter(std::span<RingEvent> out, bool wait);

  // Ends a waiting enter(), or the next one that would wait. From any thread.
  void wake();

 private:
  class Impl;
  explicit Ring(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;  // hides liburing
};

}  // namespace forebay::sys
