#include "sys/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/check.h"

namespace forebay::sys {
namespace {

Result<std::byte*> map(int fd, size_t bytes, int protection, const std::string& path) {
  void* memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return error_from_errno(errno, path, "mapping");
  return static_cast<std::byte*>(memory);
}

}  // namespace

Result<SharedFile> SharedFile::open(const std::string& path) {
  const ScopedFd fd = FB_TRY(open_file(kCurrentFolder, path, OpenMode::kRead));
  FileStatus status;
  if (const int failed = status_of(fd.get(), status); failed != 0)
    return error_from_errno(-failed, path);
  SharedFile file;
  if (status.size == 0) return file;
  file.memory_ = FB_TRY(map(fd.get(), status.size, PROT_READ, path));
  file.size_ = file.mapped_ = status.size;
  return file;
}

Result<SharedFile> SharedFile::create(const std::string& path, size_t bytes, unsigned mode) {
  SharedFile file = FB_TRY(create_growing(path, bytes, bytes, mode));
  file.fd_.reset();
  return file;
}

Result<SharedFile> SharedFile::create_growing(const std::string& path, size_t bytes,
                                              size_t bytes_max, unsigned mode) {
  ScopedFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.is_open()) return error_from_errno(errno, path);
  if (const int failed = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); failed != 0)
    return error_from_errno(failed, path);
  SharedFile file;
  file.memory_ = FB_TRY(map(fd.get(), bytes_max, PROT_READ | PROT_WRITE, path));
  file.size_ = bytes;
  file.mapped_ = bytes_max;
  file.fd_ = std::move(fd);
  return file;
}

Status SharedFile::grow(size_t bytes) {
  FB_CHECK(bytes <= mapped_);
  if (bytes <= size_) return {};
  const auto more = static_cast<off_t>(bytes - size_);
  if (const int failed = ::posix_fallocate(fd_.get(), static_cast<off_t>(size_), more); failed != 0)
    return error_from_errno(failed, "a shared file", "growing");
  // Touched here, so that those who share it need not wait for the file system.
  constexpr size_t kPageBytes = 4096;
  for (size_t at = size_; at < bytes; at += kPageBytes)
    __atomic_store_n(reinterpret_cast<char*>(memory_ + at), 0, __ATOMIC_RELAXED);
  size_ = bytes;
  return {};
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)),
      fd_(std::move(other.fd_)) {}

SharedFile& SharedFile::operator=(SharedFile&& other) noexcept {
  if (this == &other) return *this;
  if (memory_ != nullptr) ::munmap(memory_, mapped_);
  memory_ = std::exchange(other.memory_, nullptr);
  size_ = std::exchange(other.size_, 0);
  mapped_ = std::exchange(other.mapped_, 0);
  fd_ = std::move(other.fd_);
  return *this;
}

SharedFile::~SharedFile() {
  if (memory_ != nullptr) ::munmap(memory_, mapped_);
}

}  // namespace forebay::sys
