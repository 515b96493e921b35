#include "record/io_calls.h"

#include <array>
#include <iterator>

#include "sys/system_call.h"

namespace forebay::record {

namespace {

using trace::Category;

constexpr unsigned kRead = kIoFd | kIoBytes | kIoReads;
constexpr unsigned kWrite = kIoFd | kIoBytes;

// The calls that come in floods, numbered from 1.
constexpr unsigned short_call(unsigned number) {
  return number << kIoShortShift;
}

constexpr IoCallKind kKinds[] = {
    {"read", Category::kRead, kRead | kIoPosition | short_call(1)},
    {"readv", Category::kRead, kRead | kIoPosition},
    {"pread64", Category::kRead, kRead | kIoOffset | short_call(2)},
    {"preadv", Category::kRead, kRead | kIoOffset},
    {"preadv2", Category::kRead, kRead | kIoOffset},
    {"sendfile", Category::kRead, kIoReads2 | kIoBytes | kIoReads},
    {"copy_file_range", Category::kRead, kRead},
    {"write", Category::kWrite, kWrite | kIoPosition | short_call(3)},
    {"writev", Category::kWrite, kWrite | kIoPosition},
    {"pwrite64", Category::kWrite, kWrite | kIoOffset | short_call(4)},
    {"pwritev", Category::kWrite, kWrite | kIoOffset},
    {"pwritev2", Category::kWrite, kWrite | kIoOffset},
    {"open", Category::kMetadata, kIoFdResult | kIoPath},
    {"creat", Category::kMetadata, kIoFdResult | kIoPath},
    {"openat", Category::kMetadata, kIoFdResult | kIoAtPath},
    {"openat2", Category::kMetadata, kIoFdResult | kIoAtPath},
    {"close", Category::kMetadata, kIoCloses},
    {"stat", Category::kMetadata, kIoPath},
    {"lstat", Category::kMetadata, kIoPath},
    {"fstat", Category::kMetadata, kIoFd},
    {"newfstatat", Category::kMetadata, kIoAtPath},
    {"statx", Category::kMetadata, kIoAtPath},
    {"access", Category::kMetadata, kIoPath},
    {"faccessat", Category::kMetadata, kIoAtPath},
    {"faccessat2", Category::kMetadata, kIoAtPath},
    {"readlink", Category::kMetadata, kIoPath},
    {"readlinkat", Category::kMetadata, kIoAtPath},
    {"getdents64", Category::kMetadata, kIoFd},
    {"lseek", Category::kMetadata, kIoFd | short_call(5)},
    {"rename", Category::kMetadata, kIoPath},
    {"renameat", Category::kMetadata, kIoAtPath},
    {"renameat2", Category::kMetadata, kIoAtPath},
    {"unlink", Category::kMetadata, kIoPath},
    {"unlinkat", Category::kMetadata, kIoAtPath},
    {"mkdir", Category::kMetadata, kIoPath},
    {"mkdirat", Category::kMetadata, kIoAtPath},
    {"rmdir", Category::kMetadata, kIoPath},
    {"link", Category::kMetadata, kIoPath},
    {"symlink", Category::kMetadata, kIoPath},
    {"truncate", Category::kMetadata, kIoPath},
    {"ftruncate", Category::kMetadata, kIoFd},
    {"fallocate", Category::kMetadata, kIoFd},
    {"fadvise64", Category::kMetadata, kIoFd},
    {"mmap", Category::kMetadata, kIoFd5},
    {"fsync", Category::kSync, kIoFd},
    {"fdatasync", Category::kSync, kIoFd},
    {"sync_file_range", Category::kSync, kIoFd},
    {"syncfs", Category::kSync, kIoFd},
    {"sync", Category::kSync, kIoWanted},
    {"msync", Category::kSync, kIoWanted},
    {"futex", Category::kLock, kIoFutex},
    {"flock", Category::kLock, kIoFd},
    {"epoll_wait", Category::kSleep, kIoWanted},
    {"epoll_pwait", Category::kSleep, kIoWanted},
    {"epoll_pwait2", Category::kSleep, kIoWanted},
    {"poll", Category::kSleep, kIoWanted},
    {"ppoll", Category::kSleep, kIoWanted},
    {"select", Category::kSleep, kIoWanted},
    {"pselect6", Category::kSleep, kIoWanted},
    {"nanosleep", Category::kSleep, kIoWanted},
    {"clock_nanosleep", Category::kSleep, kIoWanted},
    {"rt_sigsuspend", Category::kSleep, kIoWanted},
    {"rt_sigtimedwait", Category::kSleep, kIoWanted},
    {"pause", Category::kSleep, kIoWanted},
    {"wait4", Category::kSleep, kIoWanted},
    {"waitid", Category::kSleep, kIoWanted},
    {"io_uring_enter", Category::kSleep, kIoWanted},
    {"io_getevents", Category::kSleep, kIoWanted},
    {"recvfrom", Category::kNetwork, kIoFd | kIoBytes | short_call(6)},
    {"recvmsg", Category::kNetwork, kIoFd | kIoBytes},
    {"recvmmsg", Category::kNetwork, kIoFd},
    {"sendto", Category::kNetwork, kIoFd | kIoBytes | short_call(7)},
    {"sendmsg", Category::kNetwork, kIoFd | kIoBytes},
    {"sendmmsg", Category::kNetwork, kIoFd},
    {"connect", Category::kNetwork, kIoFd},
    {"accept", Category::kNetwork, kIoFdResult},
    {"accept4", Category::kNetwork, kIoFdResult},
};

using KindsByNumber = std::array<const IoCallKind*, kIoNumbersMax>;

const KindsByNumber& by_number() {
  static const KindsByNumber table = [] {
    KindsByNumber made{};
    for (const IoCallKind& kind : kKinds) {
      const auto number = sys::system_call_number(kind.name);
      if (number && *number >= 0 && *number < kIoNumbersMax) {
        made[static_cast<size_t>(*number)] = &kind;
      }
    }
    return made;
  }();
  return table;
}

// By opcode, as linux/io_uring.h numbers them.
constexpr IoRequestKind kRequests[] = {
    {"nop", Category::kOther, false, false},
    {"read", Category::kRead, true, true},  // readv
    {"write", Category::kWrite, true, true},
    {"fsync", Category::kSync, false, false},
    {"read", Category::kRead, true, true},  // into a registered buffer
    {"write", Category::kWrite, true, true},
    {"poll", Category::kSleep, false, false},
    {"poll_remove", Category::kOther, false, false},
    {"sync_file_range", Category::kSync, false, false},
    {"sendmsg", Category::kNetwork, true, false},
    {"recvmsg", Category::kNetwork, true, false},
    {"timeout", Category::kSleep, false, false},
    {"timeout_remove", Category::kOther, false, false},
    {"accept", Category::kNetwork, false, false},
    {"cancel", Category::kOther, false, false},
    {"link_timeout", Category::kSleep, false, false},
    {"connect", Category::kNetwork, false, false},
    {"fallocate", Category::kMetadata, false, false},
    {"openat", Category::kMetadata, false, false},
    {"close", Category::kMetadata, false, false},
    {"files_update", Category::kOther, false, false},
    {"statx", Category::kMetadata, false, false},
    {"read", Category::kRead, true, true},
    {"write", Category::kWrite, true, true},
    {"fadvise", Category::kMetadata, false, false},
    {"madvise", Category::kOther, false, false},
    {"send", Category::kNetwork, true, false},
    {"recv", Category::kNetwork, true, false},
    {"openat2", Category::kMetadata, false, false},
};

}  // namespace

std::span<const IoCallKind> io_call_kinds() {
  return kKinds;
}

const IoCallKind* io_call_kind(int number) {
  return number >= 0 && number < kIoNumbersMax ? by_number()[static_cast<size_t>(number)] : nullptr;
}

IoSettings io_settings() {
  IoSettings settings{};
  for (int number = 0; number < kIoNumbersMax; ++number) {
    const IoCallKind* const kind = io_call_kind(number);
    if (kind == nullptr) continue;
    settings.flags[number] = static_cast<unsigned short>(kind->flags | kIoWanted);
  }
  return settings;
}

IoRequestKind io_request_kind(uint8_t opcode) {
  if (opcode >= std::size(kRequests)) return {"request", Category::kOther, false, false};
  return kRequests[opcode];
}

std::string_view block_operation(uint8_t operation) {
  switch (operation) {
    case 0:
      return "read";
    case 1:
      return "write";
    case 2:
      return "flush";
    case 3:
      return "discard";
    default:
      return "other";
  }
}

}  // namespace forebay::record
