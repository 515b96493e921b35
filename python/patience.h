// Ends waits that last, so that whoever waits can look for Ctrl-C or for others in between, and
// then waits on. Costs a fast loop nothing but a lock: its thread sleeps while no wait is long.
//
// begin() and end() come in pairs, from one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <thread>

#include "base/mutex.h"
#include "forebay/result.h"

namespace forebay::python {

class Patience {
 public:
  // A wait ends once it has lasted one to two of these.
  static constexpr std::chrono::milliseconds kTurn{25};

  // kResourceExhausted when the system has no thread left. Once, before the first wait.
  Status start();

  // Ends the thread; no more waits after it.
  void stop() { thread_ = {}; }

  void begin(std::stop_source& wait);
  void end();

 private:
  void run(std::stop_token stop);

  base::Mutex mutex_;
  base::CondVar began_;
  std::stop_source* wait_ FB_GUARDED_BY(mutex_) = nullptr;
  uint64_t count_ FB_GUARDED_BY(mutex_) = 0;  // of waits so far
  bool is_asleep_ FB_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace forebay::python
