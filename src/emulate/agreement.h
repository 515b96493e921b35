// Whether all processes of a run were asked for the same and see the same data.
//
// One thread.
#pragma once

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "cluster/world.h"
#include "dataset/index.h"
#include "forebay/result.h"
#include "workload/workload.h"

namespace forebay::emulate {

struct RunRequest;

// Name and value of everything that must be equal, in one order. "" = not given.
using Items = std::vector<std::pair<std::string, std::string>>;

// Of a workload: its keys, and whose defaults they have. Folders are left out: hosts may mount the
// data elsewhere.
Items items_of(const workload::Resolved& resolved, const std::string& version);
// Of a run: also every option that it heeds and that is not of one process alone.
Items items_of(const RunRequest& request);

// kInvalidArgument in every process, naming the rank and host and the first item that differs from
// process 0's, with both values.
Status agree_on(const Items& mine, cluster::World& world, std::stop_token stop);

// The files of `index`, by path and size. kNotFound in every process, naming the rank and host, the
// counts, and the first file that differs from process 0's. `folder` is for messages.
Status agree_on_files(const dataset::Index& index, const std::string& folder, cluster::World& world,
                      std::stop_token stop);

}  // namespace forebay::emulate
