// Files by descriptor: every call retries EINTR and turns errno into an Error that names the path.
//
// Functions are safe from any thread. `path` is for messages unless the function opens or changes
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "forebay/result.h"

namespace forebay::sys {

// Owns one descriptor. A negative number, such as the -errno of open_at, is kept and owns nothing.
class ScopedFd {
 public:
  ScopedFd() = default;
  explicit ScopedFd(int fd) : fd_(fd) {}
  ScopedFd(ScopedFd&& other) noexcept : fd_(other.release()) {}
  ScopedFd& operator=(ScopedFd&& other) noexcept;
  ~ScopedFd() { reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release();
  void reset();
  // From now on the number of this open descriptor means what `other` was, also for calls of other
  // threads; what it meant before is closed. 0 or -errno.
  int become(ScopedFd other);

 private:
  int fd_ = -1;
};

// The folder that relative paths start from: the process's working directory.
inline constexpr int kCurrentFolder = -100;  // AT_FDCWD

enum class OpenMode { kRead, kReadDirect, kWrite, kCreateNew, kFolder };

// "path: No such file or directory", with a remedy where there is one: descriptors (how many are
// needed), space (how much is free). ENOENT is kNotFound; ENOSPC, EDQUOT, EMFILE and ENFILE are
// kResourceExhausted; the rest kIo.
Error error_from_errno(int error_number, std::string_view path, std::string_view doing = "");

// Opens `path` below the folder `folder_fd`. The descriptor, or -errno. Allocates nothing, so that
// it can stand in the path of every read.
int open_at(int folder_fd, std::string_view path, OpenMode mode);
Result<ScopedFd> open_file(int folder_fd, std::string_view path, OpenMode mode);

// Bytes read, fewer only at the end of the file, or -errno. Content with `enough` bytes: a caller
// who asks for one more than there should be learns of growth without a second call.
int64_t read_at(int fd, std::span<std::byte> out, uint64_t offset, size_t enough = SIZE_MAX);
// One read call: may be short anywhere. For O_DIRECT, where the rest of a short read has no
// alignment.
int64_t read_once(int fd, std::span<std::byte> out, uint64_t offset);
// As read_at into two places, one behind the other, content once the first is full. One system call
// unless it is interrupted.
int64_t read_at(int fd, std::span<std::byte> first, std::span<std::byte> second, uint64_t offset);

// Reads what is no file with offsets (a kernel iterator) to its end and forgets it; 0 or -errno.
int read_away(int fd);

// Writes all of it at `offset`; 0 or -errno.
int write_at(int fd, std::span<const std::byte> bytes, uint64_t offset);

struct FileStatus {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  bool is_file = false;
  bool is_folder = false;
  bool is_link = false;  // a symbolic link leads to it
};
// Whether both are one file.
bool is_same_file(const FileStatus& a, const FileStatus& b);

// 0 or -errno. Links are followed.
int status_of(int fd, FileStatus& out);
int status_at(int folder_fd, std::string_view path, FileStatus& out);
Result<FileStatus> file_status(int folder_fd, std::string_view path);

// Data and size, durable. sync_folder makes names durable.
Status sync_file(int fd, std::string_view path);
Status sync_folder(int folder_fd, std::string_view path);
Status rename_file(int folder_fd, std::string_view from, std::string_view to);
// Another name for the same file. kUnsupported where the file system has no such links, or has no
// more for this file; kIo when `to` is there already.
Status link_file(int folder_fd, std::string_view from, std::string_view to);
Status remove_file(int folder_fd, std::string_view path);
// An empty one.
Status remove_folder(int folder_fd, std::string_view path);
// Every folder of `path` that is missing, mode 0777 less the umask.
Status make_folders(int folder_fd, std::string_view path);
// Bytes that an ordinary user may still write.
Result<uint64_t> free_bytes(int fd, std::string_view path);

// Hints to the page cache; a refusal costs speed only.
void advise_sequential(int fd);
void advise_random(int fd);
void advise_dont_need(int fd);

// Whether the file's reads and writes go past the page cache from now on (O_DIRECT); false when the
// file system refuses.
bool set_direct(int fd, bool is_direct);

// Takes the file's exclusive lock without waiting; held until the descriptor is closed. False when
// another has it or the file system has none. Needs a descriptor that may write.
bool try_lock(int fd);
// The same, by others at once unless it is exclusive (then the descriptor must write), and why not.
enum class LockOutcome { kTaken, kHeldByAnother, kNoLocks };
LockOutcome lock_file(int fd, bool is_exclusive);
bool is_process_alive(int pid);

}  // namespace forebay::sys
