// The folder that a file-system store stands on: opens, lists and writes below it.
//
// Safe from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "storage/open_files.h"
#include "storage/store.h"
#include "sys/file.h"

namespace forebay::storage {

class Folder {
 public:
  // A root that does not exist yet is made by the first create(). Fails when it is not a folder.
  static Result<std::unique_ptr<Folder>> open(std::string_view root);

  const std::string& root() const { return root_; }
  OpenFiles& open_files() { return open_files_; }

  // Opens a file below the root. The descriptor, or -errno. When the process is out of descriptors,
  // those kept for later are given up first.
  int open_at(std::string_view path, sys::OpenMode mode);
  // What to say about an errno that open_at or a read of `path` returned.
  Error error(int error_number, std::string_view path, std::string_view doing = "") const;

  // Remembers the first file that could not be read past the page cache; "" while there is none.
  void note_direct_refused(std::string_view path);
  std::string direct_refusal();

  Result<Listing> list(std::string_view prefix);
  Result<FileInfo> stat(std::string_view path);
  Result<size_t> read_at(std::string_view path, uint64_t offset, std::span<std::byte> out);
  Result<std::unique_ptr<Writer>> create(std::string_view path);
  Status remove(std::string_view path);
  Result<uint64_t> free_bytes();

 private:
  explicit Folder(std::string root);
  // The root's descriptor, or -errno.
  int root_fd();
  // Removes unpublished files of processes that are gone; once per folder.
  void clean(std::string_view folder);

  const std::string root_;
  OpenFiles open_files_;
  // Opened once; a reader that sees it sees the open folder, nothing else hangs on it.
  std::atomic<int> root_fd_ = -1;
  base::Mutex mutex_;
  sys::ScopedFd root_owner_ FB_GUARDED_BY(mutex_);
  std::string direct_refusal_ FB_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> cleaned_ FB_GUARDED_BY(mutex_);
};

// Names of files that are not published yet: ".forebay-<process>-<number>.part".
std::string part_name(int process, uint64_t number);
bool is_part_name(std::string_view name);

}  // namespace forebay::storage
