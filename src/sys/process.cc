#include "sys/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>

#include "base/check.h"

namespace forebay::sys {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// The number after `key` in a /proc file of "key: value" lines.
std::optional<uint64_t> proc_value(const char* path, const char* key) {
  std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path, "re"));
  if (!file) return std::nullopt;
  char line[256];
  const size_t length = std::strlen(key);
  while (std::fgets(line, sizeof line, file.get()))
    if (std::strncmp(line, key, length) == 0) return std::strtoull(line + length, nullptr, 10);
  return std::nullopt;
}

int count_entries(const char* path) {
  DIR* dir = opendir(path);
  if (!dir) return 0;
  int count = 0;
  while (const dirent* entry = readdir(dir))
    if (entry->d_name[0] != '.') ++count;
  closedir(dir);
  return count;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

Usage process_usage() {
  Usage usage;
  rusage self{};
  if (getrusage(RUSAGE_SELF, &self) == 0) {
    usage.cpu_user_seconds = seconds(self.ru_utime);
    usage.cpu_system_seconds = seconds(self.ru_stime);
  }
  usage.device_read_bytes = proc_value("/proc/self/io", "read_bytes:");
  usage.device_write_bytes = proc_value("/proc/self/io", "write_bytes:");
  return usage;
}

uint64_t peak_resident_bytes() {
  return proc_value("/proc/self/status", "VmHWM:").value_or(0) * 1024;
}

bool reset_peak_resident() {
  const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = write(fd, "5", 1) == 1;
  close(fd);
  return done;
}

uint64_t resident_bytes() {
  return proc_value("/proc/self/status", "VmRSS:").value_or(0) * 1024;
}
int open_file_count() {
  return std::max(0, count_entries("/proc/self/fd") - 1);
}
int thread_count() {
  return count_entries("/proc/self/task");
}

uint64_t open_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return limit.rlim_cur;
}

uint64_t raise_open_file_limit(uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

void name_thread(std::string_view name) {
  char text[16] = {};
  std::memcpy(text, name.data(), std::min<size_t>(name.size(), sizeof text - 1));
  prctl(PR_SET_NAME, text);
}

void set_timer_slack_ns(uint64_t ns) {
  prctl(PR_SET_TIMERSLACK, ns);
}

void prefer_thread() {
  constexpr int kNice = -10;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
}

int64_t thread_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

uint64_t fresh_seed() {
  uint64_t seed = 0;
  FB_CHECK(getrandom(&seed, sizeof seed, 0) == sizeof seed);
  return seed;
}

double unix_seconds() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

int process_id() {
  return getpid();
}

}  // namespace forebay::sys
