// The entry of the module forebay_mpi.so. C linkage: it is looked up by its name.
#pragma once

#include <cstddef>

#include "cluster/channel.h"

namespace forebay::cluster {

constexpr const char* kMpiEntry = "forebay_open_mpi_1";

// Starts MPI; the caller owns the channel. Null on an error, with the reason in `why`.
using OpenMpi = Channel* (*)(char* why, size_t why_bytes);

}  // namespace forebay::cluster
