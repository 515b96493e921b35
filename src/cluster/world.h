// The processes of one run: alone, or those that a launcher such as mpirun started.
//
// Every process makes the same calls in the same order, one at a time; a call may come from any
// thread. What is marked "any time" may be called beside them. Process 0 is the hub: the others
// talk to it, and it knows who has not come. Its memory and time grow with the number of processes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/group.h"
#include "forebay/result.h"

namespace forebay::cluster {

// A host's monotonic clock minus that of process 0's host, as an exchange of messages showed.
struct ClockOffset {
  int64_t ns = 0;
  int64_t uncertainty_ns = 0;  // half of the shortest round trip
};

class World {
 public:
  virtual ~World() = default;

  virtual int rank() const = 0;  // of this process, from 0
  virtual int size() const = 0;  // processes
  // Host of process `rank`, as it calls itself; processes with equal names share a machine.
  virtual const std::string& host_of(int rank) const = 0;

  // What every process gave, by rank. All wait for each other. kCancelled when a stop is asked for;
  // failure() once another process has failed.
  virtual Result<std::vector<std::string>> gather(std::string_view mine, std::stop_token stop) = 0;
  // The same for process 0; the others go on at once with an empty list.
  virtual Result<std::vector<std::string>> gather_at_first(std::string_view mine,
                                                           std::stop_token stop) = 0;
  // Waits for all; the latest of their moments, each on its own monotonic clock, on that of this
  // process. Errors as gather(). Measures the clocks again from time to time.
  virtual Result<int64_t> meet(int64_t moment_ns, std::stop_token stop) = 0;
  // Measures every host's clock against process 0's. Errors as gather().
  virtual Status measure_clocks(std::stop_token stop) = 0;
  virtual ClockOffset clock_offset(int rank) const = 0;  // any time

  // Tells the others, once, that this process gives up and why; their calls then return failure().
  // kCancelled as the code: it was asked to stop. Any time.
  virtual void fail(const Error& cause) = 0;
  // "rank 2 on host1: CAUSE", with the cause's own code, of the first failure known here. Any time.
  virtual std::optional<Error> failure() const = 0;
  // Stops within a tenth of a second of the first failure, here or elsewhere. Any time.
  virtual std::stop_token failed() const = 0;
  // After a failure or a stop: what the others still have to say. Process 0 gets those that came
  // within `grace_seconds`, and waits at most `quiet_seconds` for the next one, by rank; the others
  // get an empty list at once.
  virtual std::vector<std::optional<std::string>> last_words(std::string_view mine,
                                                             double grace_seconds,
                                                             double quiet_seconds) = 0;

  // For process 0 to look at, without waiting: the newest of each process, "" = none yet. Any time.
  virtual void post(std::string_view news) = 0;
  virtual std::vector<std::string> posted() const = 0;
  // "rank 3 on host1" when a call has been waiting longer than `seconds` for it, else "". Any time.
  virtual std::string waits_for(double seconds) const = 0;

  // The last call: waits up to `grace_seconds` for all others to make it too and parts in good
  // order. False when somebody did not come.
  virtual bool close(double grace_seconds) = 0;
};

// One process.
std::unique_ptr<World> make_alone();

// Under mpirun, srun or another launcher that sets its environment: MPI, from the module
// forebay_mpi.so; otherwise make_alone(). kUnsupported when a launcher started several processes
// but the module is missing, or MPI does not see them: each would run the whole job. Signals to
// stop must be blocked before (sys::StopSignal): MPI starts threads.
Result<std::unique_ptr<World>> join_world(std::stop_token stop);

// "rank 2 on host1"
std::string name_of(const World& world, int rank);
// The lowest rank on the same host as `rank`: it does what is to be done once per host.
int first_on_host(const World& world, int rank);

// Barriers over `local_members` threads of each process of `world`, which must outlive it. The
// number may differ between processes.
std::unique_ptr<Group> make_group(World& world, int local_members);

}  // namespace forebay::cluster
