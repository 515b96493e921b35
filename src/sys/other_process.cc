#include "sys/other_process.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "sys/proc_file.h"

namespace forebay::sys {

namespace {

// Not by a stream: reading the file of a process that has ended fails, and stream iterators throw.
std::string text_of(const std::string& path) {
  return small_file(path);
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

bool is_interpreter(const std::string& name) {
  return name.starts_with("python") || name.starts_with("pypy") || name == "bash" || name == "sh" ||
         name.starts_with("perl") || name == "node";
}

std::vector<std::string> split_arguments(const std::string& text) {
  std::vector<std::string> arguments;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return arguments;
}

}  // namespace

std::string program_of(int pid) {
  const std::string name = program_named_by(text_of("/proc/" + std::to_string(pid) + "/cmdline"));
  return name.empty() ? thread_name(pid, pid) : name;
}

std::string program_named_by(const std::string& text) {
  const std::vector<std::string> arguments = split_arguments(text);
  if (arguments.empty()) return {};
  std::string program = file_name(arguments[0]);
  if (!is_interpreter(program)) return program;
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "-m" && i + 1 < arguments.size()) return arguments[i + 1];
    if (arguments[i] == "-c" || arguments[i] == "-e") break;
    if (!arguments[i].starts_with('-')) return file_name(arguments[i]);
  }
  return program;
}

std::string program_path(int pid) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error).string();
}

std::string thread_name(int pid, int tid) {
  std::string text =
      text_of("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/comm");
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::vector<int> threads_of(int pid) {
  std::vector<int> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/" + std::to_string(pid) + "/task", error), end;
       !error && at != end; at.increment(error)) {
    threads.push_back(std::atoi(at->path().filename().c_str()));
  }
  return threads;
}

std::vector<int> process_tree(int pid) {
  std::vector<int> found;
  if (!threads_of(pid).empty()) found.push_back(pid);
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string folder = "/proc/" + std::to_string(found[i]) + "/task/";
    for (const int tid : threads_of(found[i])) {
      std::istringstream children(text_of(folder + std::to_string(tid) + "/children"));
      for (int child = 0; children >> child;) found.push_back(child);
    }
  }
  return found;
}

std::vector<Mapping> mappings_of(int pid) {
  std::vector<Mapping> out;
  std::istringstream lines(text_of("/proc/" + std::to_string(pid) + "/maps"));
  for (std::string line; std::getline(lines, line);) {
    Mapping m;
    std::istringstream words(line);
    std::string rights;
    uint64_t major = 0, minor = 0;
    char dash = 0, colon = 0;
    words >> std::hex >> m.begin >> dash >> m.end >> rights >> m.file_offset >> major >> colon >>
        minor >> std::dec >> m.inode >> std::ws;
    std::getline(words, m.path);
    m.device = major << 20 | minor;
    m.is_code = rights.size() > 2 && rights[2] == 'x';
    if (m.inode != 0 || m.path == "[vdso]") out.push_back(std::move(m));
  }
  return out;
}

bool read_memory(int pid, uint64_t address, std::span<std::byte> out) {
  const iovec here{out.data(), out.size()};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in the other process
  const iovec there{reinterpret_cast<void*>(address), out.size()};
  return ::process_vm_readv(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(out.size());
}

bool is_runnable(int pid, int tid) {
  const std::string text =
      text_of("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/stat");
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] == 'R';
}

}  // namespace forebay::sys
