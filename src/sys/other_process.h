// What /proc says of processes that are not this one. A process may end at any moment: then texts
// are empty.
//
// All functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace forebay::sys {

// "train.py", "forebay": the script an interpreter runs, else the program's file name.
std::string program_of(int pid);
// The same from its arguments, each ended by a NUL; empty when there is none.
std::string program_named_by(const std::string& arguments);
// The file that the process runs, absolute; empty when it may not be asked.
std::string program_path(int pid);
// What top shows for a thread: at most 15 characters.
std::string thread_name(int pid, int tid);

// The process and all that descend from it, parents first; empty when there is none.
std::vector<int> process_tree(int pid);
// Its threads.
std::vector<int> threads_of(int pid);

// One line of /proc/PID/maps that maps a file or is "[vdso]".
struct Mapping {
  uint64_t begin = 0, end = 0;
  uint64_t file_offset = 0;
  uint64_t device = 0;  // major << 20 | minor
  uint64_t inode = 0;
  bool is_code = false;
  std::string path;
};
std::vector<Mapping> mappings_of(int pid);

// Copies memory of another process, which goes on meanwhile; false when not all of it is there, or
// the kernel refuses.
bool read_memory(int pid, uint64_t address, std::span<std::byte> out);
// Whether the thread runs or could run now: "R" in /proc/PID/task/TID/stat.
bool is_runnable(int pid, int tid);

}  // namespace forebay::sys
