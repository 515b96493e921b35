// The machine this runs on, as a result should repeat it.
//
// All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace forebay::sys {

struct Host {
  std::string name;
  std::string kernel;  // "Linux 6.1.0-18-amd64"
  std::string cpu_model;
  int cpu_count = 1;  // that this process may use: affinity and cgroup quota
  int cpu_count_online = 1;
  uint64_t memory_bytes = 0;        // of the machine
  uint64_t memory_limit_bytes = 0;  // of the cgroup where that is less, else memory_bytes
  bool is_governor_powersave = false;
};
Host host();

// CPUs this process may use, by affinity mask and cgroup quota, at least 1.
int usable_cpu_count();

// "key: value" lines of /proc/meminfo, and of the first processor in /proc/cpuinfo.
std::map<std::string, std::string> meminfo();
std::map<std::string, std::string> cpuinfo();

}  // namespace forebay::sys
