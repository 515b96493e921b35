// What this process has used so far, and what it may use.
//
// All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "forebay/result.h"

namespace forebay::sys {

struct Usage {
  double cpu_user_seconds = 0, cpu_system_seconds = 0;  // all threads, finished ones included
  std::optional<uint64_t> device_read_bytes;  // fetched from block devices (/proc/self/io)
  std::optional<uint64_t> device_write_bytes;
  double cpu_seconds() const { return cpu_user_seconds + cpu_system_seconds; }
};
Usage process_usage();

// Largest resident set since the last reset (or since the start where the kernel cannot reset).
uint64_t peak_resident_bytes();
// Starts a new peak at the present resident size; false when the kernel refuses.
bool reset_peak_resident();
uint64_t resident_bytes();
int open_file_count();
int thread_count();

// Soft RLIMIT_NOFILE. raise_open_file_limit lifts it to at most the hard limit and returns the new
// one.
uint64_t open_file_limit();
uint64_t raise_open_file_limit(uint64_t wanted);

// For the calling thread: shown by top and gdb (15 characters), and how late sleeps may end.
void name_thread(std::string_view name);
void set_timer_slack_ns(uint64_t ns);
int64_t thread_cpu_ns();
// Asks the scheduler to run the calling thread before others; without the privilege nothing
// changes.
void prefer_thread();

// Seconds since 1970, with fractions.
double unix_seconds();

int process_id();

// 64 bits nobody can guess, from the kernel: for seeds that are then written down.
uint64_t fresh_seed();

}  // namespace forebay::sys
