#include "storage/open_files.h"

#include <utility>

namespace forebay::storage {

OpenFile OpenFiles::find(std::string_view path) {
  base::MutexLock lock(mutex_);
  const auto found = by_path_.find(path);
  if (found == by_path_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return found->second->file;
}

OpenFile OpenFiles::keep(std::string_view path, sys::ScopedFd file) {
  OpenFile closed;  // closes after the lock is gone: close may wait for a network
  base::MutexLock lock(mutex_);
  const auto found = by_path_.find(path);
  if (found != by_path_.end()) return found->second->file;
  recent_.push_front({std::string(path), std::make_shared<const sys::ScopedFd>(std::move(file))});
  by_path_.emplace(recent_.front().path, recent_.begin());
  if (recent_.size() > files_max_) {
    closed = std::move(recent_.back().file);
    by_path_.erase(recent_.back().path);
    recent_.pop_back();
  }
  return recent_.empty() ? nullptr : recent_.front().file;
}

void OpenFiles::forget(std::string_view path) {
  OpenFile closed;
  base::MutexLock lock(mutex_);
  const auto found = by_path_.find(path);
  if (found == by_path_.end()) return;
  closed = std::move(found->second->file);
  const auto entry = found->second;
  by_path_.erase(found);
  recent_.erase(entry);
}

bool OpenFiles::forget_all() {
  std::list<Entry> closed;
  base::MutexLock lock(mutex_);
  by_path_.clear();
  closed.swap(recent_);
  return !closed.empty();
}

}  // namespace forebay::storage
