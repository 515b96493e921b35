#include "sys/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "sys/file.h"

namespace forebay::sys {
namespace {

// Names whose sizes one thread asks for before it looks for other work. A flat folder of a million
// files is thus shared between the threads.
constexpr size_t kNamesPerTask = 512;

using Identity = std::pair<uint64_t, uint64_t>;  // device, inode

// Folders from the start down to this one, to tell a loop from a second way in.
struct Ancestry {
  Identity identity;
  std::shared_ptr<const Ancestry> parent;
};

// One folder to read, or, when it has names, some of its files to look at.
struct Task {
  std::string path;  // relative to the start; "" or, once entered, ending in '/'
  std::shared_ptr<const Ancestry> ancestry;  // of the parent until entered, then its own
  bool by_link = false;
  std::shared_ptr<ScopedFd> folder = nullptr;  // open from entering on: tasks that wait hold none
  std::vector<std::string> names = {};
};

struct Link {
  std::string path;
  std::shared_ptr<const Ancestry> ancestry;  // of the folder that holds the link
};

bool ends_the_walk(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM;
}

std::string reason_of(int error_number) {
  switch (error_number) {
    case ELOOP:
      return "symlink loop";
    case ENOENT:
      return "dangling symlink";
    case EACCES:
    case EPERM:
      return "permission denied";
    default:
      return std::strerror(error_number);
  }
}

class Walker {
 public:
  Walker(int folder_fd, const WalkOptions& options) : start_fd_(folder_fd), options_(options) {}

  void add_folder(std::string path, std::shared_ptr<const Ancestry> parent, bool by_link);
  void run();
  // One link to a folder, by sorted path, at a time: its whole tree comes before the next.
  void follow_links();
  Result<Walk> finish() &&;

 private:
  void work();
  // Opens the task's folder; false when it cannot be, or was entered before.
  bool enter(Task& task);
  void read_folder(Task& task, Walk& found, std::vector<Link>& links, std::vector<Task>& tasks);
  void look_at_names(const Task& task, Walk& found);
  void look_at_link(const Task& task, const std::string& name, Walk& found,
                    std::vector<Link>& links);
  void keep_error(Error error);

  const int start_fd_;
  const WalkOptions options_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Task> tasks_ FB_GUARDED_BY(mutex_);
  int busy_ FB_GUARDED_BY(mutex_) = 0;
  std::set<Identity> entered_ FB_GUARDED_BY(mutex_);
  std::vector<Link> links_ FB_GUARDED_BY(mutex_);
  Walk walk_ FB_GUARDED_BY(mutex_);
  std::optional<Error> error_ FB_GUARDED_BY(mutex_);
};

void Walker::keep_error(Error error) {
  base::MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
}

void Walker::add_folder(std::string path, std::shared_ptr<const Ancestry> parent, bool by_link) {
  base::MutexLock lock(mutex_);
  tasks_.push_back({std::move(path), std::move(parent), by_link});
}

bool Walker::enter(Task& task) {
  const std::string name = task.path.empty() ? "." : task.path;
  const int fd = open_at(start_fd_, name, OpenMode::kFolder);
  FileStatus status;
  const int result = fd < 0 ? fd : status_of(fd, status);
  task.folder = std::make_shared<ScopedFd>(fd < 0 ? -1 : fd);
  if (result < 0) {
    if (task.path.empty() || ends_the_walk(-result)) {
      keep_error(error_from_errno(-result, name));
      return false;
    }
    // Removed between its listing and now: not a link at all.
    const bool vanished = -result == ENOENT && !task.by_link;
    base::MutexLock lock(mutex_);
    walk_.passed_over.push_back(
        {std::move(task.path), vanished ? "vanished during the walk" : reason_of(-result)});
    return false;
  }
  const Identity identity{status.device, status.inode};
  bool is_loop = false;
  for (const Ancestry* up = task.ancestry.get(); up != nullptr; up = up->parent.get()) {
    is_loop = is_loop || up->identity == identity;
  }
  base::MutexLock lock(mutex_);
  if (!entered_.insert(identity).second) {
    const char* reason = is_loop ? (task.by_link ? "symlink loop" : "mount loop")
                                 : "folder already listed under another name";
    walk_.passed_over.push_back({std::move(task.path), reason});
    return false;
  }
  if (!task.path.empty()) task.path += '/';
  task.ancestry = std::make_shared<const Ancestry>(Ancestry{identity, std::move(task.ancestry)});
  return true;
}

void Walker::run() {
  std::vector<std::jthread> helpers;
  for (int i = 1; i < options_.threads; ++i) {
    try {
      helpers.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      break;  // no more threads to be had: those there are walk on
    }
  }
  work();
}

void Walker::work() {
  Walk found;
  std::vector<Link> links;
  std::vector<Task> made;
  for (;;) {
    Task task;
    {
      base::MutexLock lock(mutex_);
      changed_.wait(mutex_, std::stop_token(), [&]() FB_REQUIRES(mutex_) {
        return !tasks_.empty() || busy_ == 0 || error_.has_value();
      });
      if (tasks_.empty() || error_) break;
      // The newest first: name lists come before further folders, which bounds open descriptors.
      task = std::move(tasks_.back());
      tasks_.pop_back();
      ++busy_;
    }
    if (!task.names.empty()) {
      look_at_names(task, found);
    } else if (enter(task)) {
      read_folder(task, found, links, made);
    }
    task = Task();
    if (options_.stop.stop_requested()) keep_error(Error{ErrorCode::kCancelled, "stopped"});
    {
      base::MutexLock lock(mutex_);
      for (Task& next : made) tasks_.push_back(std::move(next));
      --busy_;
    }
    made.clear();
    changed_.notify_all();
  }
  changed_.notify_all();
  base::MutexLock lock(mutex_);
  std::move(found.files.begin(), found.files.end(), std::back_inserter(walk_.files));
  std::move(found.passed_over.begin(), found.passed_over.end(),
            std::back_inserter(walk_.passed_over));
  std::move(links.begin(), links.end(), std::back_inserter(links_));
}

void Walker::read_folder(Task& task, Walk& found, std::vector<Link>& links,
                         std::vector<Task>& tasks) {
  // fdopendir owns its descriptor; the files' sizes need one that outlives it.
  const int copy = ::fcntl(task.folder->get(), F_DUPFD_CLOEXEC, 0);
  DIR* stream = copy < 0 ? nullptr : ::fdopendir(copy);
  if (stream == nullptr) {
    keep_error(error_from_errno(errno, task.path));
    ScopedFd(copy).reset();
    return;
  }
  std::vector<std::string> files;
  std::vector<std::string> folders;
  errno = 0;
  while (const dirent* entry = ::readdir(stream)) {
    if (options_.stop.stop_requested()) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (options_.is_hidden != nullptr && options_.is_hidden(name)) continue;
    unsigned char type = entry->d_type;
    if (type == DT_UNKNOWN) {
      struct stat info {};
      if (::fstatat(task.folder->get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        found.passed_over.push_back({task.path + std::string(name), std::strerror(errno)});
        errno = 0;
        continue;
      }
      type = IFTODT(info.st_mode);
    }
    if (type == DT_REG) {
      files.emplace_back(name);
    } else if (type == DT_DIR) {
      folders.emplace_back(name);
    } else if (type == DT_LNK) {
      look_at_link(task, std::string(name), found, links);
    } else {
      found.passed_over.push_back({task.path + std::string(name), "not a regular file"});
    }
    errno = 0;
  }
  const int error_number = errno;
  ::closedir(stream);
  if (error_number != 0) {
    found.passed_over.push_back({task.path, std::strerror(error_number)});
  }
  for (const std::string& name : folders) {
    tasks.push_back({task.path + name, task.ancestry, false});
  }
  while (files.size() > kNamesPerTask) {
    Task part{task.path, task.ancestry, false, task.folder};
    part.names.assign(std::make_move_iterator(files.end() - kNamesPerTask),
                      std::make_move_iterator(files.end()));
    files.resize(files.size() - kNamesPerTask);
    tasks.push_back(std::move(part));
  }
  task.names = std::move(files);
  look_at_names(task, found);
}

void Walker::look_at_names(const Task& task, Walk& found) {
  for (const std::string& name : task.names) {
    if (options_.stop.stop_requested()) return;
    FileStatus status;
    const int result = status_at(task.folder->get(), name, status);
    if (result == 0) {
      found.files.push_back({task.path + name, status.size, status.mtime_ns});
    } else if (result != -ENOENT) {  // Removed meanwhile: as if it had never been there.
      found.passed_over.push_back({task.path + name, reason_of(-result)});
    }
  }
}

void Walker::look_at_link(const Task& task, const std::string& name, Walk& found,
                          std::vector<Link>& links) {
  FileStatus status;
  const int result = status_at(task.folder->get(), name, status);
  std::string path = task.path + name;
  if (result < 0) {
    found.passed_over.push_back({std::move(path), reason_of(-result)});
  } else if (status.is_file) {
    found.files.push_back({std::move(path), status.size, status.mtime_ns});
  } else if (status.is_folder) {
    links.push_back({std::move(path), task.ancestry});
  } else {
    found.passed_over.push_back({std::move(path), "not a regular file"});
  }
}

void Walker::follow_links() {
  std::vector<Link> waiting;
  for (;;) {
    {
      base::MutexLock lock(mutex_);
      if (error_) return;
      std::move(links_.begin(), links_.end(), std::back_inserter(waiting));
      links_.clear();
    }
    if (waiting.empty()) return;
    // Descending, so that the next in order is at the back.
    std::sort(waiting.begin(), waiting.end(),
              [](const Link& a, const Link& b) { return a.path > b.path; });
    const Link link = std::move(waiting.back());
    waiting.pop_back();
    add_folder(link.path, link.ancestry, true);
    run();
  }
}

Result<Walk> Walker::finish() && {
  base::MutexLock lock(mutex_);
  if (error_) return *error_;
  const auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
  std::sort(walk_.files.begin(), walk_.files.end(), by_path);
  std::sort(walk_.passed_over.begin(), walk_.passed_over.end(), by_path);
  return std::move(walk_);
}

}  // namespace

Result<Walk> walk_folder(int folder_fd, const std::string& path, const WalkOptions& options) {
  const ScopedFd start =
      FB_TRY(open_file(folder_fd, path.empty() ? std::string_view(".") : path, OpenMode::kFolder));
  Walker walker(start.get(), options);
  walker.add_folder("", nullptr, false);
  walker.run();
  walker.follow_links();
  return std::move(walker).finish();
}

Result<std::vector<std::string>> names_in(int folder_fd, const std::string& path) {
  ScopedFd fd =
      FB_TRY(open_file(folder_fd, path.empty() ? std::string_view(".") : path, OpenMode::kFolder));
  DIR* stream = ::fdopendir(fd.get());
  if (stream == nullptr) return error_from_errno(errno, path);
  fd.release();  // closedir closes it
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  const int error_number = errno;
  ::closedir(stream);
  if (error_number != 0) return error_from_errno(error_number, path);
  return names;
}

Result<std::vector<std::string>> folders_in(int folder_fd, const std::string& path) {
  std::vector<std::string> names = FB_TRY(names_in(folder_fd, path));
  std::erase_if(names, [&](const std::string& name) {
    FileStatus status;
    const int result = status_at(folder_fd, path.empty() ? name : path + "/" + name, status);
    return result < 0 || !status.is_folder || status.is_link;
  });
  return names;
}

Result<bool> make_new_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return true;
  if (errno == EEXIST) return false;
  return error_from_errno(errno, path);
}

bool path_exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::string current_folder() {
  std::string path(4096, '\0');
  if (::getcwd(path.data(), path.size()) == nullptr) return ".";
  path.resize(path.find('\0'));
  return path;
}

void remove_empty_folder(const std::string& path) {
  ::rmdir(path.c_str());  // fails for everything else, which is what is wanted
}

}  // namespace forebay::sys
