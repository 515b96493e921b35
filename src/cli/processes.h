// A command that several processes carry out together: who talks, how errors reach the user once,
// and how they part.
//
// One thread.
#pragma once

#include <functional>
#include <stop_token>

#include "cluster/world.h"
#include "forebay/result.h"

namespace forebay::cli {

// Joins the processes that a launcher started and runs `body` in each; alone it just runs it. An
// error of one process ends all: process 0 reports it with rank and host, and the others are
// silent unless process 0 cannot be reached. Somebody who is waited for is named on stderr; while
// processes are missing at the start, a stop ends the others at once.
Result<int> with_processes(std::stop_token stop,
                           const std::function<Result<int>(cluster::World& world)>& body);

// Only process 0 writes results and talks.
inline bool speaks(const cluster::World& world) {
  return world.rank() == 0;
}

// For commands that the processes do not carry out together: whether this one prints.
bool is_first_launched();

// Parts from the others and ends this process at once, for ends that cannot wait for destructors.
// `error` is reported as with_processes does; "" = nothing to report.
[[noreturn]] void leave_and_exit(cluster::World& world, const std::string& error, int code);

}  // namespace forebay::cli
