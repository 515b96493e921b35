// What started this process: a launcher of parallel jobs says so in the environment.
//
// Safe to call from any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace forebay::sys {

struct Launch {
  std::string launcher;  // "Open MPI's mpirun"
  int rank = 0;
  int size = 0;  // processes; 0 = the launcher does not say
};

// Nothing when no launcher started this process, or it started just one. A Slurm allocation alone
// is no launch: its variables stand in the shell of salloc and sbatch too.
std::optional<Launch> launched_by();

// The same for any environment: `get` returns a variable's value or null.
std::optional<Launch> launched_by(const std::function<const char*(const char* name)>& get);

}  // namespace forebay::sys
