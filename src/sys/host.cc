#include "sys/host.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "sys/cgroup.h"

namespace forebay::sys {
namespace {

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::map<std::string, std::string> key_values(const char* path, bool first_block_only) {
  std::map<std::string, std::string> values;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) {
      if (first_block_only && !values.empty()) break;
      continue;
    }
    values[trimmed(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  }
  return values;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

int usable_cpu_count() {
  cpu_set_t set;
  int count = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
  const double quota = read_cgroup_limits().cpus;
  if (quota > 0) count = std::min(count, static_cast<int>(std::ceil(quota)));
  return std::max(1, count);
}

std::map<std::string, std::string> meminfo() {
  return key_values("/proc/meminfo", false);
}
std::map<std::string, std::string> cpuinfo() {
  return key_values("/proc/cpuinfo", true);
}

Host host() {
  Host host;
  utsname names{};
  if (uname(&names) == 0) {
    host.name = names.nodename;
    host.kernel = std::string(names.sysname) + " " + names.release;
  }
  host.cpu_model = cpuinfo()["model name"];
  host.cpu_count = usable_cpu_count();
  host.cpu_count_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  host.memory_bytes = std::strtoull(meminfo()["MemTotal"].c_str(), nullptr, 10) * 1024;
  const uint64_t limit = read_cgroup_limits().memory_bytes;
  host.memory_limit_bytes = limit > 0 ? std::min(limit, host.memory_bytes) : host.memory_bytes;
  host.is_governor_powersave =
      first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") == "powersave";
  return host;
}

}  // namespace forebay::sys
