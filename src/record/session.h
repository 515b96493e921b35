// Runs a program, or follows one that runs, while collectors write what they see to one trace.
//
// One session per process, on its main thread: it takes this process's signals. Whatever ends it,
// the trace is readable up to its last second; the program's end is never the recording's fault.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forebay/result.h"
#include "record/collector.h"

namespace forebay::record {

struct SessionOptions {
  std::vector<std::string> command;  // empty: attach to `pid`
  int pid = 0;
  std::string folder;  // of the recording; empty: ./forebay-NNNN, the next free
  // "io", or with one of its backends "io/interposer", which "interposer" stands for as well where
  // no other backend has the name; empty: all.
  std::vector<std::string> collectors;
  CollectorOptions collector;
  int64_t duration_ns = 0;  // the recording ends after it, the program goes on; 0: until the end
  std::string version;      // of Forebay
  std::function<void(std::string_view line)> talk;  // to the user, while the program runs
};

struct SessionReport {
  std::string folder;
  // The program's, as a shell shows it; of one attached to 0. 126 or 127 when it could not be run:
  // then there is no recording, and `failure` says why.
  int exit_code = 0;
  std::string failure;
  bool was_interrupted = false;  // a signal asked the program, or the recording, to end
  std::string cut_short;         // why the trace ends before the program; empty: it does not
  int64_t duration_ns = 0;
  uint64_t events = 0, bytes = 0;      // of the trace
  uint64_t calls = 0, calls_lost = 0;  // that the collectors saw, and of which they know no more
  int64_t recorder_cpu_ns = 0, inside_program_ns = 0;
  std::vector<std::pair<std::string, std::string>> lines;  // the summary: a word, and what it says
};

// kInvalidArgument for a bad request, else an error that kept the recording from starting.
Result<SessionReport> run_session(const SessionOptions& options);

// The names of collectors, each once, in the order of the table.
std::vector<std::string_view> collector_names();

// Which of a collector's backends can run here, by probing each.
struct Choice {
  const Backend* backend = nullptr;
  Availability availability;
};
std::vector<Choice> probe_backends();

}  // namespace forebay::record
