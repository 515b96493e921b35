#include "sys/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "sys/process.h"

namespace forebay::sys {
namespace {

// Regular files never answer EAGAIN for long; a descriptor that does is not one we can wait for.
constexpr int kAgainTries = 100;
constexpr timespec kAgainPause{.tv_sec = 0, .tv_nsec = 1'000'000};
// One read or write call moves at most this much on Linux (MAX_RW_COUNT).
constexpr size_t kCallBytesMax = 0x7ffff000;

// A NUL-terminated copy on the stack: paths arrive as views and opening must not allocate.
class PathText {
 public:
  explicit PathText(std::string_view path) {
    fits_ = path.size() < text_.size() && path.find('\0') == std::string_view::npos;
    const size_t bytes = fits_ ? path.size() : 0;
    if (bytes != 0) std::memcpy(text_.data(), path.data(), bytes);
    text_[bytes] = '\0';
  }
  bool fits() const { return fits_; }
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, PATH_MAX> text_;
  bool fits_ = false;
};

// Calls until it is neither interrupted nor, for long, told to try again. The result or -errno.
template <class Call>
int64_t retried(Call call) {
  int again = 0;
  for (;;) {
    const int64_t result = call();
    if (result >= 0) return result;
    if (errno == EINTR) continue;
    if (errno != EAGAIN || ++again > kAgainTries) return -errno;
    nanosleep(&kAgainPause, nullptr);
  }
}

int flags_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead:
      return O_RDONLY | O_CLOEXEC;
    case OpenMode::kReadDirect:
      return O_RDONLY | O_CLOEXEC | O_DIRECT;
    case OpenMode::kWrite:
      return O_RDWR | O_CLOEXEC;
    case OpenMode::kCreateNew:
      return O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL;
    case OpenMode::kFolder:
      return O_RDONLY | O_CLOEXEC | O_DIRECTORY;
  }
  return O_RDONLY;
}

void fill(const struct stat& from, FileStatus& out) {
  out.size = static_cast<uint64_t>(from.st_size);
  out.mtime_ns = int64_t{from.st_mtim.tv_sec} * 1'000'000'000 + from.st_mtim.tv_nsec;
  out.device = from.st_dev;
  out.inode = from.st_ino;
  out.is_file = S_ISREG(from.st_mode);
  out.is_folder = S_ISDIR(from.st_mode);
}

Status status_from(int64_t result, std::string_view path, std::string_view doing) {
  if (result < 0) return error_from_errno(static_cast<int>(-result), path, doing);
  return {};
}

}  // namespace

static_assert(kCurrentFolder == AT_FDCWD);

ScopedFd& ScopedFd::operator=(ScopedFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int ScopedFd::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

int ScopedFd::become(ScopedFd other) {
  while (::dup3(other.get(), fd_, O_CLOEXEC) < 0) {
    if (errno != EINTR && errno != EBUSY) return -errno;
  }
  return 0;
}

void ScopedFd::reset() {
  // Linux frees the number even when close is interrupted: never retry it.
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Error error_from_errno(int error_number, std::string_view path, std::string_view doing) {
  std::string text(path);
  if (!doing.empty()) text += fmt::format(": {}", doing);
  text += fmt::format(": {}", std::strerror(error_number));
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return {ErrorCode::kNotFound, text};
    case EMFILE:
      return {ErrorCode::kResourceExhausted,
              fmt::format("{}; raise `ulimit -n`: it is {}, need about {}", text, open_file_limit(),
                          std::max<uint64_t>(1024, 4 * open_file_limit()))};
    case ENFILE:
      return {ErrorCode::kResourceExhausted, text + "; raise the sysctl fs.file-max"};
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
      return {ErrorCode::kResourceExhausted, text};
    case EINVAL:
    case ENAMETOOLONG:
      return {ErrorCode::kInvalidArgument, text};
    case EOPNOTSUPP:
    case ENOSYS:
      return {ErrorCode::kUnsupported, text};
    default:
      return {ErrorCode::kIo, text};
  }
}

int open_at(int folder_fd, std::string_view path, OpenMode mode) {
  const PathText text(path);
  if (!text.fits()) return path.find('\0') == std::string_view::npos ? -ENAMETOOLONG : -EINVAL;
  const auto open_with = [&](int flags) {
    return static_cast<int>(
        retried([&] { return int64_t{::openat(folder_fd, text.c_str(), flags, 0666)}; }));
  };
  // Below a folder of ours there are files, and a pipe of that name must not make us wait: read at
  // an offset it fails. What is named by the user may be a pipe.
  const bool is_ours = folder_fd != kCurrentFolder;
  const int flags = flags_of(mode) | (is_ours ? O_NONBLOCK : 0);
  const int fd = open_with(flags);
  // Somebody holds a lease on the file and is asked for it back: only regular files have those.
  return fd == -EAGAIN && is_ours ? open_with(flags & ~O_NONBLOCK) : fd;
}

Result<ScopedFd> open_file(int folder_fd, std::string_view path, OpenMode mode) {
  const int fd = open_at(folder_fd, path, mode);
  if (fd < 0) return error_from_errno(-fd, path);
  return ScopedFd(fd);
}

int64_t read_once(int fd, std::span<std::byte> out, uint64_t offset) {
  const size_t want = std::min(out.size(), kCallBytesMax);
  return retried([&] { return ::pread(fd, out.data(), want, static_cast<off_t>(offset)); });
}

int read_away(int fd) {
  std::byte ignored[512];
  for (;;) {
    const int64_t got = retried([&] { return ::read(fd, ignored, sizeof(ignored)); });
    if (got <= 0) return static_cast<int>(got);
  }
}

int64_t read_at(int fd, std::span<std::byte> out, uint64_t offset, size_t enough) {
  size_t done = 0;
  while (done < out.size() && done < enough) {
    const int64_t got = read_once(fd, out.subspan(done), offset + done);
    if (got < 0) return got;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<int64_t>(done);
}

int64_t read_at(int fd, std::span<std::byte> first, std::span<std::byte> second, uint64_t offset) {
  size_t done = 0;
  if (first.size() < kCallBytesMax) {
    const std::array<iovec, 2> parts{iovec{first.data(), first.size()},
                                     iovec{second.data(), second.size()}};
    const int64_t got =
        retried([&] { return ::preadv(fd, parts.data(), 2, static_cast<off_t>(offset)); });
    if (got <= 0 || static_cast<size_t>(got) >= first.size()) return got;
    done = static_cast<size_t>(got);
  }
  // Short inside `first`: the end of the file, or an interruption. The next call tells.
  const int64_t rest = read_at(fd, first.subspan(done), offset + done);
  if (rest < 0) return rest;
  done += static_cast<size_t>(rest);
  if (done < first.size()) return static_cast<int64_t>(done);
  const int64_t tail = read_once(fd, second, offset + done);
  return tail < 0 ? tail : static_cast<int64_t>(done) + tail;
}

int write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  size_t done = 0;
  while (done < bytes.size()) {
    const size_t want = std::min(bytes.size() - done, kCallBytesMax);
    const int64_t put = retried(
        [&] { return ::pwrite(fd, bytes.data() + done, want, static_cast<off_t>(offset + done)); });
    if (put < 0) return static_cast<int>(put);
    if (put == 0) return -ENOSPC;
    done += static_cast<size_t>(put);
  }
  return 0;
}

int status_of(int fd, FileStatus& out) {
  struct stat info {};
  const int64_t result = retried([&] { return int64_t{::fstat(fd, &info)}; });
  if (result == 0) fill(info, out);
  return static_cast<int>(result);
}

int status_at(int folder_fd, std::string_view path, FileStatus& out) {
  const PathText text(path);
  if (!text.fits()) return path.find('\0') == std::string_view::npos ? -ENAMETOOLONG : -EINVAL;
  struct stat info {};
  const auto look = [&](int flags) {
    return retried([&] { return int64_t{::fstatat(folder_fd, text.c_str(), &info, flags)}; });
  };
  int64_t result = look(AT_SYMLINK_NOFOLLOW);
  out.is_link = result == 0 && S_ISLNK(info.st_mode);
  if (out.is_link) result = look(0);
  if (result == 0) fill(info, out);
  return static_cast<int>(result);
}

bool is_same_file(const FileStatus& a, const FileStatus& b) {
  return a.device == b.device && a.inode == b.inode;
}

Result<FileStatus> file_status(int folder_fd, std::string_view path) {
  FileStatus out;
  const int result = status_at(folder_fd, path, out);
  if (result < 0) return error_from_errno(-result, path);
  return out;
}

Status sync_file(int fd, std::string_view path) {
  return status_from(retried([&] { return int64_t{::fdatasync(fd)}; }), path, "fdatasync");
}

Status sync_folder(int folder_fd, std::string_view path) {
  const ScopedFd fd =
      FB_TRY(open_file(folder_fd, path.empty() ? std::string_view(".") : path, OpenMode::kFolder));
  return status_from(retried([&] { return int64_t{::fsync(fd.get())}; }), path, "fsync");
}

Status rename_file(int folder_fd, std::string_view from, std::string_view to) {
  const PathText source(from);
  const PathText target(to);
  if (!source.fits() || !target.fits()) return error_from_errno(ENAMETOOLONG, to);
  return status_from(
      retried([&] {
        return int64_t{::renameat(folder_fd, source.c_str(), folder_fd, target.c_str())};
      }),
      to, "rename");
}

Status link_file(int folder_fd, std::string_view from, std::string_view to) {
  const PathText source(from);
  const PathText target(to);
  if (!source.fits() || !target.fits()) return error_from_errno(ENAMETOOLONG, to);
  const int64_t linked = retried(
      [&] { return int64_t{::linkat(folder_fd, source.c_str(), folder_fd, target.c_str(), 0)}; });
  const bool has_none = linked == -EPERM || linked == -EOPNOTSUPP || linked == -EMLINK ||
                        linked == -EXDEV || linked == -ENOSYS;
  if (has_none) return fail(ErrorCode::kUnsupported, "{}: no links to a file here", to);
  return status_from(linked, to, "link");
}

Status remove_file(int folder_fd, std::string_view path) {
  const PathText text(path);
  if (!text.fits()) return error_from_errno(ENAMETOOLONG, path);
  return status_from(retried([&] { return int64_t{::unlinkat(folder_fd, text.c_str(), 0)}; }), path,
                     "remove");
}

Status remove_folder(int folder_fd, std::string_view path) {
  const PathText text(path);
  if (!text.fits()) return error_from_errno(ENAMETOOLONG, path);
  return status_from(
      retried([&] { return int64_t{::unlinkat(folder_fd, text.c_str(), AT_REMOVEDIR)}; }), path,
      "remove");
}

Status make_folders(int folder_fd, std::string_view path) {
  for (size_t end = 0; end != std::string_view::npos;) {
    end = path.find('/', end + 1);
    const std::string_view folder = path.substr(0, end);
    if (folder.empty() || folder == "/") continue;
    const PathText text(folder);
    if (!text.fits()) return error_from_errno(ENAMETOOLONG, path);
    if (::mkdirat(folder_fd, text.c_str(), 0777) != 0 && errno != EEXIST && errno != EISDIR) {
      return error_from_errno(errno, folder, "make folder");
    }
  }
  return {};
}

Result<uint64_t> free_bytes(int fd, std::string_view path) {
  struct statvfs info {};
  const int64_t result = retried([&] { return int64_t{::fstatvfs(fd, &info)}; });
  if (result < 0) return error_from_errno(static_cast<int>(-result), path);
  return uint64_t{info.f_bavail} * info.f_frsize;
}

void advise_sequential(int fd) {
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}
void advise_random(int fd) {
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
}
void advise_dont_need(int fd) {
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

bool set_direct(int fd, bool is_direct) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return false;
  return ::fcntl(fd, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

bool try_lock(int fd) {
  return lock_file(fd, true) == LockOutcome::kTaken;
}

LockOutcome lock_file(int fd, bool is_exclusive) {
  // Owned by the open file, not by the process: it also tells two stores of one process apart.
  struct flock whole {};
  whole.l_type = is_exclusive ? F_WRLCK : F_RDLCK;
  whole.l_whence = SEEK_SET;
  while (::fcntl(fd, F_OFD_SETLK, &whole) != 0) {
    if (errno == EAGAIN || errno == EACCES) return LockOutcome::kHeldByAnother;
    if (errno != EINTR) return LockOutcome::kNoLocks;
  }
  return LockOutcome::kTaken;
}

bool is_process_alive(int pid) {
  return ::kill(pid, 0) == 0 || errno != ESRCH;
}

}  // namespace forebay::sys
