// The interface of everything that observes: one collector for each source of facts (system calls,
// samples, counters, marks). A session starts the chosen ones, polls them, and writes one trace.
//
// All calls come from the session's thread, in the order in which they stand here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forebay/result.h"
#include "record/tracks.h"
#include "trace/writer.h"

namespace forebay::record {

// What a collector puts into.
struct Sink {
  trace::TraceWriter& writer;
  Tracks& tracks;
};

// What is observed. Before begin() the program is not yet running or, when it was attached to, has
// been running all along.
struct Target {
  int pid = 0;               // the first process; its children count too
  bool is_attached = false;  // by --pid: nothing can be put into its environment
  std::string folder;        // of this recording, absolute; collectors may leave files of their own
  std::vector<std::string> command;  // empty when attached
  // Added to the program's environment before it starts; ignored when it is attached to. A value
  // for LD_PRELOAD is put in front of one that is there.
  std::vector<std::pair<std::string, std::string>> environment;
};

struct CollectorOptions {
  int sample_hertz = 99;
  int poll_hertz = 10;           // of /proc and counters
  bool off_cpu_is_seen = false;  // another collector says when threads do not run
  // Events a second of one host that are kept one by one; beyond it calls are counted in histograms
  // and thinned, never lost in silence.
  uint64_t events_per_second_max = 200'000;
};

// What a collector can say of itself when asked, for the summary of a session.
struct CollectorTotals {
  uint64_t calls = 0;                // all that were made: kept, counted or lost
  uint64_t lost = 0;                 // events that found no place
  int64_t inside_ns = 0;             // CPU time that it took inside the observed program, estimated
  std::string_view unit;             // "calls", "samples"; empty: nothing to say
  std::string lost_because = {};     // "r: disk full"; empty: not known, or nothing was lost
  bool is_for_want_of_space = true;  // on the disk: more of it would help
};

class Collector {
 public:
  virtual ~Collector() = default;

  // Before the program exists: may add to target.environment.
  virtual Status prepare(Target& target);
  // The program's first process exists (target.pid) and waits to run.
  virtual Status begin(const Target& target, Sink& sink) = 0;
  // Moves what came since the last call into the sink. Must not wait.
  virtual Status poll(Sink& sink) = 0;
  // What is in the sink is about to be written. What the collector holds back until the end would
  // be lost with the recorder: it may be told now.
  virtual Status tell_so_far(Sink& /*sink*/) { return {}; }
  // The program ended, or the recording did. Says what was lost and missed in facts of the writer.
  virtual Status end(Sink& sink) = 0;

  virtual CollectorTotals totals() const { return {}; }

  // How long the collector can do without a poll before it loses something; asked after each poll.
  virtual int64_t poll_within_ns() const { return 100'000'000; }
};

// Whether a collector can run here, and what to do where it cannot.
struct Availability {
  bool is_available = false;
  std::string detail;  // "eBPF, BTF of this kernel", or why not: "perf_event_paranoid is 3"
  std::string remedy;  // "run as root, or: setcap cap_bpf,cap_perfmon+ep forebay"
};

// One way to collect one thing. Of the backends of one collector the first that is available runs.
struct Backend {
  std::string_view collector;  // "io", "cpu", "proc", "system", "gpu", "energy", "marks"
  std::string_view name;       // "ebpf", "interposer"
  std::string_view gives;      // one line: what one learns
  std::string_view needs;      // one line: privileges, kernel features
  std::string_view misses;     // one line: what it cannot see; empty = nothing known
  Availability (*probe)();
  std::unique_ptr<Collector> (*make)(const CollectorOptions& options);
  bool sees_off_cpu = false;  // says when threads do not run, and why
};

// All of them, the better backend of a collector first: record/builtin.cc.
std::span<const Backend> backends();

}  // namespace forebay::record
