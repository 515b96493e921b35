#include "sys/process_tree.h"

#include <unistd.h>

#include <charconv>
#include <set>

#include "sys/child_process.h"
#include "sys/directory.h"

namespace forebay::sys {
namespace {

std::vector<int> numbers_in(const std::string& folder) {
  std::vector<int> numbers;
  const auto names = names_in(kCurrentFolder, folder);
  if (!names.ok()) return numbers;
  for (const std::string& name : *names) {
    int number = 0;
    const auto end = std::from_chars(name.data(), name.data() + name.size(), number);
    if (end.ec == std::errc() && *end.ptr == '\0') numbers.push_back(number);
  }
  return numbers;
}

// Without CONFIG_PROC_CHILDREN: every process of the machine is asked for its parent.
std::map<int, int> all_parents() {
  std::map<int, int> parents;
  for (const int pid : numbers_in("/proc")) {
    const std::string text = small_file("/proc/" + std::to_string(pid) + "/stat");
    const size_t at = text.rfind(") ");
    if (at == std::string::npos) continue;
    std::string_view rest = std::string_view(text).substr(at + 3);
    parents[pid] = static_cast<int>(take_number(rest));
  }
  return parents;
}

bool has_children_files() {
  static const bool has =
      ProcFile("/proc/self/task/" + std::to_string(::getpid()) + "/children").is_open();
  return has;
}

void add_children(int pid, std::map<int, int>& found) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const int tid : numbers_in(tasks)) {
    const std::string text = small_file(tasks + "/" + std::to_string(tid) + "/children");
    std::string_view rest = text;
    while (!rest.empty()) {
      const int child = static_cast<int>(take_number(rest));
      if (child <= 0) break;
      if (!is_helper(child) && found.emplace(child, pid).second) add_children(child, found);
    }
  }
}

}  // namespace

std::map<int, int> descendants_of(int pid) {
  std::map<int, int> found;
  if (has_children_files()) {
    add_children(pid, found);
    return found;
  }
  const std::map<int, int> parents = all_parents();
  std::set<int> inside{pid};
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [child, parent] : parents) {
      if (inside.count(parent) == 0 || is_helper(child)) continue;
      if (inside.insert(child).second) grew = true;
      found.emplace(child, parent);
    }
  }
  found.erase(pid);
  return found;
}

int session_of(int pid) {
  return ::getsid(pid);
}

ProcessWatch::ProcessWatch(int pid)
    : folder_("/proc/" + std::to_string(pid)), memory_(folder_ + "/statm"), io_(folder_ + "/io") {}

bool ProcessWatch::read_thread(int tid, ThreadUse& use) {
  Thread& thread = threads_[tid];
  thread.is_listed = true;
  if (!thread.time.is_open())
    thread.time = ProcFile(folder_ + "/task/" + std::to_string(tid) + "/schedstat");
  auto text = thread.time.read();
  if (!text) return false;
  use.tid = tid;
  use.cpu_ns = static_cast<int64_t>(take_number(*text));
  use.runnable_ns = static_cast<int64_t>(take_number(*text));
  return true;
}

bool ProcessWatch::read(Use& use) {
  use.threads.clear();
  auto memory = memory_.read();
  if (!memory) return false;
  take_number(*memory);  // the address space's size
  use.resident_bytes = take_number(*memory) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  for (auto& [tid, thread] : threads_) thread.is_listed = false;
  for (const int tid : numbers_in(folder_ + "/task")) {
    ThreadUse one;
    if (read_thread(tid, one)) use.threads.push_back(one);
  }
  std::erase_if(threads_, [](const auto& entry) { return !entry.second.is_listed; });
  if (const auto io = io_.read()) {
    use.device_read_bytes = number_after(*io, "read_bytes:");
    use.device_written_bytes = number_after(*io, "write_bytes:");
  }
  return !use.threads.empty();
}

}  // namespace forebay::sys
