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

enum class Caching { kCached, kDirect };

class Folder {
 public:
  // A root that does not exist yet is made by the first create() or make_folder(). Fails when it is
  // not a folder.
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

  // These end with kCancelled once `stop` is asked for.
  Result<Listing> list(std::string_view prefix, const std::stop_token& stop);
  Result<size_t> read_at(std::string_view path, uint64_t offset, std::span<std::byte> out,
                         const std::stop_token& stop);
  Result<std::unique_ptr<Reader>> open_file(std::string_view path, const std::stop_token& stop);
  Result<FileInfo> stat(std::string_view path);
  Status make_folder(std::string_view path);
  Status rename_folder(std::string_view from, std::string_view to);
  Status remove_folder(std::string_view path);
  Status link_file(std::string_view from, std::string_view to);
  Result<std::shared_ptr<const void>> lock_file(std::string_view path, bool is_exclusive);
  Result<std::unique_ptr<Writer>> create(std::string_view path, Caching caching);
  Status remove(std::string_view path);
  Result<std::vector<std::string>> list_folders(std::string_view prefix);
  Result<std::vector<Unpublished>> list_unpublished(std::string_view prefix);
  Status remove_unpublished(const Unpublished& one);
  void look_again();
  Result<uint64_t> free_bytes();

 private:
  class File;

  explicit Folder(std::string root);
  Result<size_t> read_all(int fd, std::string_view path, uint64_t offset, std::span<std::byte> out,
                          const std::stop_token& stop);
  // The root's descriptor, or -errno. The number stays the same when look_again() finds another
  // folder: who holds it never meets another file's.
  int root_fd();
  // The same; a root that is missing is made first.
  Result<int> made_root_fd();
  // Removes unpublished files of processes that are gone; once per folder.
  void clean(std::string_view folder);
  void clean_now(std::string_view folder);
  // Whether the open file still has that name.
  bool has_name(const sys::ScopedFd& fd, std::string_view path);
  // Adds what is directly in `folder` ("" or ending in '/').
  Status add_unpublished(const std::string& folder, std::vector<Unpublished>& out);

  const std::string root_;
  const std::string place_;  // the same, wherever the process's working folder goes
  OpenFiles open_files_;
  // A reader that sees it sees the open folder, nothing else hangs on it.
  std::atomic<int> root_fd_ = -1;
  base::Mutex mutex_;
  sys::ScopedFd root_owner_ FB_GUARDED_BY(mutex_);
  std::string direct_refusal_ FB_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> cleaned_ FB_GUARDED_BY(mutex_);
};

// Makes the names of a file, and of the folders above it up to the root, durable.
Status sync_names_of(int root_fd, std::string_view path);

// Names of files that are not published yet: ".forebay-<process>-<number>.part".
std::string part_name(int process, uint64_t number);
bool is_part_name(std::string_view name);

}  // namespace forebay::storage
