#include "sys/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"

namespace forebay::sys {
namespace {

// Linux 6.5; the C library of Debian 12 does not know it yet.
#ifndef SYS_cachestat
constexpr long kCachestatCall = 451;
#else
constexpr long kCachestatCall = SYS_cachestat;
#endif

struct CachestatRange {
  uint64_t offset, length;  // length 0 = to the end of the file
};
struct Cachestat {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;  // pages
};

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error open_error(const std::string& path) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return fail(code, "{}: {}", path, std::strerror(errno));
}

// For files of other users mincore reports every page as present; such an answer is worth nothing.
bool mincore_can_be_trusted(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && (geteuid() == 0 || status.st_uid == geteuid() ||
                                     faccessat(fd, "", W_OK, AT_EMPTY_PATH) == 0);
}

Result<CachedBytes> by_mincore(const std::string& path, int fd, uint64_t size, uint64_t page) {
  if (!mincore_can_be_trusted(fd))
    return fail(ErrorCode::kUnsupported, "{}: the kernel tells only a file's owner what is cached",
                path);
  void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED)
    return fail(ErrorCode::kUnsupported, "{}: mmap: {}", path, std::strerror(errno));
  std::vector<unsigned char> present((size + page - 1) / page);
  const int status = mincore(map, size, present.data());
  munmap(map, size);
  if (status != 0)
    return fail(ErrorCode::kUnsupported, "{}: mincore: {}", path, std::strerror(errno));
  CachedBytes result{size, 0};
  for (const unsigned char byte : present) result.cached_bytes += (byte & 1) ? page : 0;
  result.cached_bytes = std::min(result.cached_bytes, size);
  return result;
}

}  // namespace

Result<CachedBytes> cached_bytes(const std::string& path) {
  const OpenFile file(path);
  struct stat status {};
  if (file.fd() < 0 || fstat(file.fd(), &status) != 0) return open_error(path);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size == 0) return CachedBytes{};
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  CachestatRange range{0, 0};
  Cachestat answer{};
  if (syscall(kCachestatCall, file.fd(), &range, &answer, 0) == 0)
    return CachedBytes{size, std::min(answer.cached * page, size)};
  return by_mincore(path, file.fd(), size, page);
}

Status evict_from_page_cache(const std::string& path) {
  if (is_memory_file_system(path))
    return fail(ErrorCode::kUnsupported, "{}: lies on a file system in memory", path);
  const OpenFile file(path);
  if (file.fd() < 0) return open_error(path);
  fdatasync(file.fd());  // dirty pages cannot be dropped; a read-only file system may refuse
  const int error = posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  if (error != 0) return fail(ErrorCode::kIo, "{}: fadvise: {}", path, std::strerror(error));
  return {};
}

Result<uint64_t> load_into_page_cache(const std::string& path) {
  const OpenFile file(path);
  if (file.fd() < 0) return open_error(path);
  constexpr size_t kPiece = 256 << 10;
  const auto buffer = std::make_unique<char[]>(kPiece);
  uint64_t total = 0;
  for (;;) {
    const ssize_t got = read(file.fd(), buffer.get(), kPiece);
    if (got == 0) return total;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ErrorCode::kIo, "{}: read: {}", path, std::strerror(errno));
    total += static_cast<uint64_t>(got);
  }
}

bool is_memory_file_system(const std::string& path) {
  const std::string name = file_system_name(path);
  return name == "tmpfs" || name == "ramfs";
}

std::string file_system_name(const std::string& path) {
  struct statfs status {};
  if (statfs(path.c_str(), &status) != 0) return "unknown";
  switch (static_cast<uint64_t>(status.f_type)) {
    case 0xef53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683e:
      return "btrfs";
    case 0x01021994:
      return "tmpfs";
    case 0x858458f6:
      return "ramfs";
    case 0x6969:
      return "nfs";
    case 0x794c7630:
      return "overlay";
    case 0x0bd00bd0:
      return "lustre";
    case 0x65735546:
      return "fuse";
    case 0x2fc12fc1:
      return "zfs";
    case 0x00c36400:
      return "ceph";
    case 0x47504653:
      return "gpfs";
    case 0xff534d42:
      return "cifs";
    default:
      return fmt::format("{:#x}", static_cast<uint64_t>(status.f_type));
  }
}

}  // namespace forebay::sys
