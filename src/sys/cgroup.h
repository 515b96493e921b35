// What the control groups (versions 1 and 2) that a process lies in allow it: a container's limits.
//
// Safe to call from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace forebay::sys {

struct CgroupLimits {
  double cpus = 0;            // that the quota amounts to; 0 = no quota
  uint64_t memory_bytes = 0;  // 0 = no limit
};

// The least of the process's own group and all those above it. `proc` is /proc/self, `mount` is
// /sys/fs/cgroup; a container often sees its own group as the root of the mount.
CgroupLimits read_cgroup_limits(const std::string& proc = "/proc/self",
                                const std::string& mount = "/sys/fs/cgroup");

}  // namespace forebay::sys
