// Which processes descend from one, and what each of them uses.
//
// One thread at a time. Processes come and go while they are looked at: what is gone is left out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sys/proc_file.h"

namespace forebay::sys {

// Every process below `pid`, with its parent; `pid` itself is not among them. One that lives
// shorter than the time between two calls is not seen.
std::map<int, int> descendants_of(int pid);

// The session of terminals that a process belongs to; one that made its own is a daemon. -1 = gone.
int session_of(int pid);

// CPU time, memory and I/O of one process, thread by thread.
class ProcessWatch {
 public:
  explicit ProcessWatch(int pid);

  struct ThreadUse {
    int tid = 0;
    int64_t cpu_ns = 0;       // on a core, since it began
    int64_t runnable_ns = 0;  // ready, but another had the core
  };
  struct Use {
    std::vector<ThreadUse> threads;
    uint64_t resident_bytes = 0;
    std::optional<uint64_t> device_read_bytes, device_written_bytes;  // of other users' not told
  };
  // False when the process is gone.
  bool read(Use& use);

 private:
  bool read_thread(int tid, ThreadUse& use);

  std::string folder_;
  ProcFile memory_, io_;
  struct Thread {
    ProcFile time;
    bool is_listed = false;
  };
  std::map<int, Thread> threads_;
};

}  // namespace forebay::sys
