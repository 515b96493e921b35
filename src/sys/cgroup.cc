#include "sys/cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace forebay::sys {
namespace {

// Version 1 says "no limit" with a number near 2^63, cut to pages.
constexpr uint64_t kUnlimitedBytes = uint64_t{1} << 62;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// This process's group below `controller` ("" = version 2), or "" when it has none.
std::string group_of(const std::string& proc, const std::string& controller) {
  std::ifstream file(proc + "/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t a = line.find(':');
    const size_t b = line.find(':', a + 1);
    if (a == std::string::npos || b == std::string::npos) continue;
    const std::string controllers = line.substr(a + 1, b - a - 1);
    const bool matches =
        controller.empty()
            ? controllers.empty()
            : ("," + controllers + ",").find("," + controller + ",") != std::string::npos;
    if (matches) return line.substr(b + 1);
  }
  return "";
}

// The group's folder and those above it, down to the mount itself. A group that a container cannot
// see leaves the mount, which is then its own.
std::vector<std::string> folders(const std::string& mount, std::string group) {
  std::vector<std::string> out;
  while (group.size() > 1) {
    out.push_back(mount + group);
    group.resize(std::min(group.size(), group.rfind('/')));
  }
  out.push_back(mount);
  return out;
}

void keep_least_cpus(double cpus, CgroupLimits& limits) {
  if (cpus > 0 && (limits.cpus == 0 || cpus < limits.cpus)) limits.cpus = cpus;
}

void keep_least_bytes(uint64_t bytes, CgroupLimits& limits) {
  if (bytes == 0 || bytes >= kUnlimitedBytes) return;
  if (limits.memory_bytes == 0 || bytes < limits.memory_bytes) limits.memory_bytes = bytes;
}

void read_version2(const std::string& folder, CgroupLimits& limits) {
  std::istringstream cpu(first_line(folder + "/cpu.max"));
  std::string quota;
  double period = 0;
  if (cpu >> quota >> period && quota != "max" && period > 0)
    keep_least_cpus(std::strtod(quota.c_str(), nullptr) / period, limits);
  const std::string memory = first_line(folder + "/memory.max");
  if (memory != "max") keep_least_bytes(std::strtoull(memory.c_str(), nullptr, 10), limits);
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& proc, const std::string& mount) {
  CgroupLimits limits;
  for (const std::string& folder : folders(mount, group_of(proc, "")))
    read_version2(folder, limits);
  for (const char* name : {"/cpu", "/cpu,cpuacct"})
    for (const std::string& folder : folders(mount + name, group_of(proc, "cpu"))) {
      const double quota = std::strtod(first_line(folder + "/cpu.cfs_quota_us").c_str(), nullptr);
      const double period = std::strtod(first_line(folder + "/cpu.cfs_period_us").c_str(), nullptr);
      if (quota > 0 && period > 0) keep_least_cpus(quota / period, limits);
    }
  for (const std::string& folder : folders(mount + "/memory", group_of(proc, "memory")))
    keep_least_bytes(
        std::strtoull(first_line(folder + "/memory.limit_in_bytes").c_str(), nullptr, 10), limits);
  return limits;
}

}  // namespace forebay::sys
