// How files, folders and formats are used; how disks answer.
//
// Pure functions of a view.
#pragma once

#include <vector>

#include "explain/driver_time.h"
#include "explain/explanation.h"

namespace forebay::explain {

Io io_of(const View& view);

std::vector<Disk> disks_of(const View& view, const JobTime& time);

// Reads during which a disk worked for the same thread, split into CPU, device and queue.
ReadLatency read_latency_of(const View& view);

}  // namespace forebay::explain
