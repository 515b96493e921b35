// Spans that overlap without nesting cannot stand in one row: requests of a disk, of io_uring, of a
// loader. Lanes are the rows that they need.
//
// A pure function of the recording.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/recording.h"

namespace forebay::trace {

// For each row of the track the lane it stands in, from 0; in one lane spans nest. Greedy: the
// first lane that has room, so that lane 0 is the fullest. Instants, counters and samples are in
// lane 0.
std::vector<uint32_t> lanes_of(const Recording& recording, TrackId track);

}  // namespace forebay::trace
