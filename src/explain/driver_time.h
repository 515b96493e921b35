// Gives every instant of a driver's time its owner.
//
// Pure functions of a view and a job; helpers are walked on two threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "explain/activity.h"
#include "explain/explanation.h"
#include "explain/job.h"
#include "forebay/result.h"

namespace forebay::explain {

// A stretch of a driver's time with one owner. Pieces follow each other without gaps.
struct Owned {
  int64_t begin_ns = 0, end_ns = 0;
  Part part = Part::kOther;
  bool is_running = false;  // the driver's own thread, on the CPU and outside calls
  uint32_t cause = 0;       // into DriverTime::causes
};

// What a cause says of the driver's own thread.
enum class CauseKind : uint8_t {
  kOther,
  kReady,        // could run, but had no core; not inside a part
  kWithoutCore,  // the same, inside a part
};

// Sums of what the threads that a driver waited for did meanwhile.
struct Blame {
  int64_t fetch = 0, network = 0, prepare = 0, save = 0, write = 0, lock = 0, sleep = 0, sync = 0;
  int64_t compute = 0;  // operators and what is marked as computing, of other threads of the job
  int64_t ready = 0;    // of prepare: could run, but had no core
  int64_t busy() const { return fetch + network + prepare + save + write + sync + compute; }
  void add(const Blame& more);
};

// Causes that others look for.
inline constexpr std::string_view kReadyCause = "ready, without a core";
inline constexpr std::string_view kWithoutCore = ", without a core";  // ends causes inside a part
inline constexpr std::string_view kStartCause = "starting: loading the program and its modules";
inline constexpr std::string_view kDecodingCause = "decoding itself";
inline constexpr std::string_view kPreparingCause = "preparing data itself";
inline constexpr std::string_view kAsleepCause = "asleep";  // begins them: after calls on a folder
inline constexpr std::string_view kUnseenCause = "not seen by the recording";
inline constexpr std::string_view kThreadsReadyCause = "its threads are ready, but have no core";
inline constexpr std::string_view kThreadsLockedCause = "its threads wait for each other";
inline constexpr std::string_view kOutsideCause =
    "before the device's first work, or after its last";

struct DriverTime {
  DriverPlan plan = {};
  int64_t begin_ns = 0, end_ns = 0;
  int64_t started_ns = 0;  // until then it loaded the program and its modules
  // From then on it only waits, in one wait, for threads that do all the work: a join. What they
  // compute is the program's computing, and no wait for data.
  int64_t handed_over_ns = INT64_MAX;
  std::vector<Owned> pieces = {};
  std::vector<std::string> causes = {};  // texts; 0 is ""
  std::vector<CauseKind> kinds_of_causes() const;
  // What rules look at: the driver's own time by what it did, and what its waits were for.
  Blame waited_for = {};
  int64_t wait_ns = 0;  // that had to be explained by others
  int64_t own_read_ns = 0, own_prepare_ns = 0, own_metadata_ns = 0, own_fault_ns = 0;
  int64_t anonymous_fault_ns = 0;
  int64_t own_network_ns = 0;
  int64_t launch_idle_ns = 0;         // an accelerator waited for its host
  int64_t ready_ns = 0;               // could run, but had no core
  int64_t unseen_ns = 0;              // nothing says whether it ran or waited
  int64_t outside_ns = 0;             // of an accelerator: before its first work, after its last
  std::string prepare_function = {};  // where most of its own preparing was sampled
  std::string prepare_source = {};
  bool prepare_is_python = false;
  std::string save_function = {};  // where most of its own saving was sampled
  // Of sleeps with one cause: how many, and where they were called or code beside them was sampled.
  struct Sleeps {
    uint64_t count = 0;
    int64_t ns = 0;
    std::map<std::string, uint64_t> functions = {};
  };
  std::map<uint32_t, Sleeps> sleeps = {};  // by cause
  // Threads of the job that ran while this one was ready, without a core: their CPU time.
  int64_t ready_others_ns = 0;
};

// What one helper did, all its life and while any driver waited.
struct HelperUse {
  trace::TrackId thread = trace::kNoId;
  int64_t life_ns = 0, end_ns = 0;
  struct Times {
    int64_t cpu = 0, read = 0, metadata = 0, fault = 0, network = 0, write = 0, lock = 0, poll = 0,
            sleep = 0, unseen = 0;
    int64_t ready = 0;  // of cpu: could run, but had no core
    // Of lock: for what others make or say, by the call's name, or as a thread that trains ended
    // it; and in calls that are locks in Python, and else mostly for what others make.
    int64_t event = 0, semaphore = 0;
    int64_t busy() const { return cpu + read + metadata + fault + network + write; }
  };
  Times all = {}, in_stalls = {};
  std::string function = {}, source = {};  // where most of its CPU time was sampled
  bool is_python = false;
  int64_t sampled_ns = 0, python_ns = 0, preparing_ns = 0;  // of its running code
};

struct JobTime {
  std::vector<DriverTime> drivers = {};
  std::vector<HelperUse> helpers = {};
};

Result<JobTime> own_time(const View& view, const Job& job);

}  // namespace forebay::explain
