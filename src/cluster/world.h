// The processes of one run: alone, or those that a launcher such as mpirun started.
//
// Every process makes the same calls in the same order, one at a time; a call may come from any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/group.h"
#include "forebay/result.h"

namespace forebay::cluster {

class World {
 public:
  virtual ~World() = default;

  virtual int rank() const = 0;  // of this process, from 0
  virtual int size() const = 0;  // processes
  // Host of process `rank`, as it calls itself; processes with equal names share a machine.
  virtual const std::string& host_of(int rank) const = 0;

  // What every process gave, by rank. All wait for each other. kCancelled when a stop is asked for,
  // or "rank 2 on host1: CAUSE" once another process has failed.
  virtual Result<std::vector<std::string>> gather(std::string_view mine, std::stop_token stop) = 0;

  // The largest value of all; otherwise as gather().
  virtual Result<int64_t> maximum(int64_t mine, std::stop_token stop) = 0;

  // Tells the others that this process gives up, so that none of them waits for it. The last call.
  virtual void fail(std::string_view cause) = 0;
};

// One process.
std::unique_ptr<World> make_alone();

// Under mpirun, srun or another launcher that sets its environment: MPI, from the module
// forebay_mpi.so; otherwise make_alone(). kUnsupported when a launcher started several processes
// but the module is missing: without it each of them would run the whole job.
Result<std::unique_ptr<World>> join_world();

// Barriers over `local_members` threads of each process of `world`, which must outlive it.
std::unique_ptr<Group> make_group(World& world, int local_members);

}  // namespace forebay::cluster
