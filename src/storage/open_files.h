// Files kept open because more reads of them will follow: the least recently used are closed.
//
// Safe from any thread. A file handed out stays open until its holder lets go.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "sys/file.h"

namespace forebay::storage {

using OpenFile = std::shared_ptr<const sys::ScopedFd>;

class OpenFiles {
 public:
  explicit OpenFiles(size_t files_max) : files_max_(files_max) {}

  // Null when it is not kept.
  OpenFile find(std::string_view path);
  // Keeps `file`, or drops it for the one that another thread put there first. What is kept.
  OpenFile keep(std::string_view path, sys::ScopedFd file);
  void forget(std::string_view path);
  // False when there was none to close.
  bool forget_all();

 private:
  struct Entry {
    std::string path;
    OpenFile file;
  };

  const size_t files_max_;
  base::Mutex mutex_;
  std::list<Entry> recent_ FB_GUARDED_BY(mutex_);  // most recently used first
  // Keys view the entries' paths: list nodes do not move.
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_path_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::storage
