#include "sys/file_space.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace forebay::sys {
namespace {

template <class Call>
int uninterrupted(Call call) {
  int result = 0;
  do result = call();
  while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : -errno;
}

}  // namespace

int reserve_space(int fd, uint64_t offset, uint64_t bytes) {
  return uninterrupted([&] {
    return ::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(bytes));
  });
}

int cut_file(int fd, uint64_t size) {
  return uninterrupted([&] { return ::ftruncate(fd, static_cast<off_t>(size)); });
}

bool is_disk_full(const Error& error) {
  return error.code == ErrorCode::kResourceExhausted &&
         (error.message.ends_with(std::strerror(ENOSPC)) ||
          error.message.ends_with(std::strerror(EDQUOT)));
}

}  // namespace forebay::sys
