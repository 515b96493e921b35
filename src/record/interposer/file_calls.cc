// The calls that open, read, write, sync and describe files.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "record/interposer/files.h"
#include "record/interposer/log.h"
#include "record/interposer/wrap.h"

// NOLINTBEGIN(bugprone-reserved-identifier): names of libc's own.

namespace forebay::record::interposer {
namespace {

// Of the folder that a path starts from.
int64_t folder_number(int folder_fd, const char* path) {
  return folder_fd == AT_FDCWD || path == nullptr || path[0] == '/' ? kNoOffset
                                                                    : int64_t{file_of(folder_fd)};
}

// A call on an open file, or on a path, that begins now.
UnderWay on_file(Operation operation, int fd, int64_t offset = kNoOffset) {
  const uint32_t file = file_of(fd);
  return UnderWay(
      {.operation = operation, .file = file, .offset = offset, .is_own = is_own_file(fd)});
}
UnderWay on_path(Operation operation, int folder_fd, const char* path) {
  return UnderWay({.operation = operation,
                   .offset = folder_number(folder_fd, path),
                   .text = text_of(path),
                   .is_own = is_own_path(path)});
}

// An open call that just returned `fd`.
void note_open(Operation operation, int64_t start_ns, int fd, int folder_fd, const char* path,
               int flags) {
  const int64_t end = now_ns();
  const KeepErrno kept;
  if (is_in_vfork()) return;
  const bool is_own = is_own_path(path);
  uint32_t file = 0;
  if (fd >= 0) file = new_file(fd, (flags & O_APPEND) != 0 ? kUnknownPosition : 0, is_own);
  if (is_own) return;
  note({.operation = operation,
        .start_ns = start_ns,
        .end_ns = end,
        .result = result_of(fd < 0 ? -1 : 0, kept),
        .file = file,
        .offset = folder_number(folder_fd, path),
        .text = text_of(path)});
}

// A call on an open file. `offset`: kNoOffset where the call says none.
void note_on_file(Operation operation, int64_t start_ns, int fd, int64_t result,
                  int64_t offset = kNoOffset) {
  const int64_t end = now_ns();
  const KeepErrno kept;
  const uint32_t file = file_of(fd);
  if (is_own_file(fd)) return;
  note({.operation = operation,
        .start_ns = start_ns,
        .end_ns = end,
        .result = result_of(result, kept),
        .file = file,
        .offset = offset});
}

// A read or write at the descriptor's own position.
void note_moving(Operation operation, int64_t start_ns, int fd, int64_t result) {
  const int64_t end = now_ns();
  const KeepErrno kept;
  const uint32_t file = file_of(fd);
  if (is_own_file(fd)) return;
  note({.operation = operation,
        .start_ns = start_ns,
        .end_ns = end,
        .result = result_of(result, kept),
        .file = file,
        .offset = advance(fd, result)});
}

void note_path(Operation operation, int64_t start_ns, int folder_fd, const char* path,
               int64_t result) {
  const int64_t end = now_ns();
  const KeepErrno kept;
  if (is_own_path(path)) return;
  note({.operation = operation,
        .start_ns = start_ns,
        .end_ns = end,
        .result = result_of(result, kept),
        .offset = folder_number(folder_fd, path),
        .text = text_of(path)});
}

}  // namespace

#define FB_WRAP_OPEN(name)                                                   \
  FB_WRAP(int, name, (const char* path, int flags, mode_t mode)) {           \
    if (!is_on()) return real_##name(path, flags, mode);                     \
    const UnderWay call = on_path(Operation::kOpen, AT_FDCWD, path);         \
    const int fd = real_##name(path, flags, mode);                           \
    note_open(Operation::kOpen, call.start_ns(), fd, AT_FDCWD, path, flags); \
    return fd;                                                               \
  }
FB_WRAP_OPEN(open)
FB_WRAP_OPEN(open64)
FB_WRAP_OPEN(__open_2)
FB_WRAP_OPEN(__open64_2)

#define FB_WRAP_OPENAT(name)                                                      \
  FB_WRAP(int, name, (int folder_fd, const char* path, int flags, mode_t mode)) { \
    if (!is_on()) return real_##name(folder_fd, path, flags, mode);               \
    const UnderWay call = on_path(Operation::kOpenat, folder_fd, path);           \
    const int fd = real_##name(folder_fd, path, flags, mode);                     \
    note_open(Operation::kOpenat, call.start_ns(), fd, folder_fd, path, flags);   \
    return fd;                                                                    \
  }
FB_WRAP_OPENAT(openat)
FB_WRAP_OPENAT(openat64)
FB_WRAP_OPENAT(__openat_2)
FB_WRAP_OPENAT(__openat64_2)

#define FB_WRAP_CREAT(name)                                              \
  FB_WRAP(int, name, (const char* path, mode_t mode)) {                  \
    if (!is_on()) return real_##name(path, mode);                        \
    const UnderWay call = on_path(Operation::kOpen, AT_FDCWD, path);     \
    const int fd = real_##name(path, mode);                              \
    note_open(Operation::kOpen, call.start_ns(), fd, AT_FDCWD, path, 0); \
    return fd;                                                           \
  }
FB_WRAP_CREAT(creat)
FB_WRAP_CREAT(creat64)

FB_WRAP(int, close, (int fd)) {
  if (!is_on() || is_in_vfork()) return real_close(fd);
  // Looked up before: another thread may get the number as soon as it is closed.
  const bool is_own = is_own_file(fd);
  const uint32_t file = fd >= 0 && fd < kDescriptorsMax ? process_state->files[fd].number : 0;
  forget_file(fd);
  const UnderWay call({.operation = Operation::kClose, .file = file, .is_own = is_own});
  const int result = real_close(fd);
  const int64_t end = now_ns();
  const KeepErrno kept;
  if (!is_own)
    note({.operation = Operation::kClose,
          .start_ns = call.start_ns(),
          .end_ns = end,
          .result = result_of(result, kept),
          .file = file});
  return result;
}

FB_WRAP(int, close_range, (unsigned first, unsigned last, int flags)) {
  if (is_on() && !is_in_vfork()) forget_files(first, last);
  return real_close_range(first, last, flags);
}
FB_WRAP(void, closefrom, (int first)) {
  if (is_on() && !is_in_vfork()) forget_files(static_cast<unsigned>(first), kDescriptorsMax);
  real_closefrom(first);
}
FB_WRAP(int, dup2, (int from, int to)) {
  if (is_on() && from != to && !is_in_vfork()) forget_file(to);
  return real_dup2(from, to);
}
FB_WRAP(int, dup3, (int from, int to, int flags)) {
  if (is_on() && from != to && !is_in_vfork()) forget_file(to);
  return real_dup3(from, to, flags);
}

FB_WRAP(ssize_t, read, (int fd, void* out, size_t size)) {
  if (!is_on()) return real_read(fd, out, size);
  const UnderWay call = on_file(Operation::kRead, fd);
  const ssize_t got = real_read(fd, out, size);
  note_moving(Operation::kRead, call.start_ns(), fd, got);
  return got;
}
FB_WRAP(ssize_t, __read_chk, (int fd, void* out, size_t size, size_t room)) {
  if (!is_on()) return real___read_chk(fd, out, size, room);
  const UnderWay call = on_file(Operation::kRead, fd);
  const ssize_t got = real___read_chk(fd, out, size, room);
  note_moving(Operation::kRead, call.start_ns(), fd, got);
  return got;
}
FB_WRAP(ssize_t, write, (int fd, const void* bytes, size_t size)) {
  if (!is_on()) return real_write(fd, bytes, size);
  const UnderWay call = on_file(Operation::kWrite, fd);
  const ssize_t put = real_write(fd, bytes, size);
  note_moving(Operation::kWrite, call.start_ns(), fd, put);
  return put;
}
FB_WRAP(ssize_t, readv, (int fd, const iovec* parts, int count)) {
  if (!is_on()) return real_readv(fd, parts, count);
  const UnderWay call = on_file(Operation::kReadv, fd);
  const ssize_t got = real_readv(fd, parts, count);
  note_moving(Operation::kReadv, call.start_ns(), fd, got);
  return got;
}
FB_WRAP(ssize_t, writev, (int fd, const iovec* parts, int count)) {
  if (!is_on()) return real_writev(fd, parts, count);
  const UnderWay call = on_file(Operation::kWritev, fd);
  const ssize_t put = real_writev(fd, parts, count);
  note_moving(Operation::kWritev, call.start_ns(), fd, put);
  return put;
}

#define FB_WRAP_AT(name, operation, pointer)                                   \
  FB_WRAP(ssize_t, name, (int fd, pointer bytes, size_t size, off_t offset)) { \
    if (!is_on()) return real_##name(fd, bytes, size, offset);                 \
    const UnderWay call = on_file(operation, fd, offset);                      \
    const ssize_t moved = real_##name(fd, bytes, size, offset);                \
    note_on_file(operation, call.start_ns(), fd, moved, offset);               \
    return moved;                                                              \
  }
FB_WRAP_AT(pread, Operation::kPread, void*)
FB_WRAP_AT(pread64, Operation::kPread, void*)
FB_WRAP_AT(pwrite, Operation::kPwrite, const void*)
FB_WRAP_AT(pwrite64, Operation::kPwrite, const void*)

#define FB_WRAP_PREAD_CHECKED(name)                                                     \
  FB_WRAP(ssize_t, name, (int fd, void* out, size_t size, off_t offset, size_t room)) { \
    if (!is_on()) return real_##name(fd, out, size, offset, room);                      \
    const UnderWay call = on_file(Operation::kPread, fd, offset);                       \
    const ssize_t got = real_##name(fd, out, size, offset, room);                       \
    note_on_file(Operation::kPread, call.start_ns(), fd, got, offset);                  \
    return got;                                                                         \
  }
FB_WRAP_PREAD_CHECKED(__pread_chk)
FB_WRAP_PREAD_CHECKED(__pread64_chk)

#define FB_WRAP_VECTOR_AT(name, operation)                                        \
  FB_WRAP(ssize_t, name, (int fd, const iovec* parts, int count, off_t offset)) { \
    if (!is_on()) return real_##name(fd, parts, count, offset);                   \
    const UnderWay call = on_file(operation, fd, offset);                         \
    const ssize_t moved = real_##name(fd, parts, count, offset);                  \
    note_on_file(operation, call.start_ns(), fd, moved, offset);                  \
    return moved;                                                                 \
  }
FB_WRAP_VECTOR_AT(preadv, Operation::kPreadv)
FB_WRAP_VECTOR_AT(preadv64, Operation::kPreadv)
FB_WRAP_VECTOR_AT(pwritev, Operation::kPwritev)
FB_WRAP_VECTOR_AT(pwritev64, Operation::kPwritev)

// Offset -1 means the descriptor's own position.
#define FB_WRAP_VECTOR_FLAGS(name, operation)                                                \
  FB_WRAP(ssize_t, name, (int fd, const iovec* parts, int count, off_t offset, int flags)) { \
    if (!is_on()) return real_##name(fd, parts, count, offset, flags);                       \
    const UnderWay call = on_file(operation, fd);                                            \
    const ssize_t moved = real_##name(fd, parts, count, offset, flags);                      \
    if (offset == -1)                                                                        \
      note_moving(operation, call.start_ns(), fd, moved);                                    \
    else                                                                                     \
      note_on_file(operation, call.start_ns(), fd, moved, offset);                           \
    return moved;                                                                            \
  }
FB_WRAP_VECTOR_FLAGS(preadv2, Operation::kPreadv)
FB_WRAP_VECTOR_FLAGS(preadv64v2, Operation::kPreadv)
FB_WRAP_VECTOR_FLAGS(pwritev2, Operation::kPwritev)
FB_WRAP_VECTOR_FLAGS(pwritev64v2, Operation::kPwritev)

// Bytes from file to descriptor inside the kernel: told as reads of the file they come from.
#define FB_WRAP_SENDFILE(name)                                              \
  FB_WRAP(ssize_t, name, (int to, int from, off_t* offset, size_t size)) {  \
    if (!is_on()) return real_##name(to, from, offset, size);               \
    const int64_t at = offset != nullptr ? *offset : kNoOffset;             \
    const UnderWay call = on_file(Operation::kSendfile, from);              \
    const ssize_t moved = real_##name(to, from, offset, size);              \
    if (offset == nullptr)                                                  \
      note_moving(Operation::kSendfile, call.start_ns(), from, moved);      \
    else                                                                    \
      note_on_file(Operation::kSendfile, call.start_ns(), from, moved, at); \
    return moved;                                                           \
  }
FB_WRAP_SENDFILE(sendfile)
FB_WRAP_SENDFILE(sendfile64)

FB_WRAP(ssize_t, copy_file_range,
        (int from, off_t* from_offset, int to, off_t* to_offset, size_t size, unsigned flags)) {
  if (!is_on()) return real_copy_file_range(from, from_offset, to, to_offset, size, flags);
  const int64_t at = from_offset != nullptr ? *from_offset : kNoOffset;
  const UnderWay call = on_file(Operation::kCopyFileRange, from);
  const ssize_t moved = real_copy_file_range(from, from_offset, to, to_offset, size, flags);
  if (from_offset == nullptr)
    note_moving(Operation::kCopyFileRange, call.start_ns(), from, moved);
  else
    note_on_file(Operation::kCopyFileRange, call.start_ns(), from, moved, at);
  return moved;
}

#define FB_WRAP_FD(name, operation)                       \
  FB_WRAP(int, name, (int fd)) {                          \
    if (!is_on()) return real_##name(fd);                 \
    const UnderWay call = on_file(operation, fd);         \
    const int result = real_##name(fd);                   \
    note_on_file(operation, call.start_ns(), fd, result); \
    return result;                                        \
  }
FB_WRAP_FD(fsync, Operation::kFsync)
FB_WRAP_FD(fdatasync, Operation::kFdatasync)
FB_WRAP_FD(syncfs, Operation::kSyncfs)

FB_WRAP(int, sync_file_range, (int fd, off_t offset, off_t size, unsigned flags)) {
  if (!is_on()) return real_sync_file_range(fd, offset, size, flags);
  const UnderWay call = on_file(Operation::kSyncFileRange, fd);
  const int result = real_sync_file_range(fd, offset, size, flags);
  note_on_file(Operation::kSyncFileRange, call.start_ns(), fd, result);
  return result;
}
FB_WRAP(void, sync, ()) {
  if (!is_on()) return real_sync();
  const UnderWay call({.operation = Operation::kSync});
  real_sync();
  const int64_t end = now_ns();
  const KeepErrno kept;
  note({.operation = Operation::kSync, .start_ns = call.start_ns(), .end_ns = end});
}
FB_WRAP(int, msync, (void* address, size_t size, int flags)) {
  if (!is_on()) return real_msync(address, size, flags);
  const UnderWay call({.operation = Operation::kMsync});
  const int result = real_msync(address, size, flags);
  const int64_t end = now_ns();
  const KeepErrno kept;
  note({.operation = Operation::kMsync,
        .start_ns = call.start_ns(),
        .end_ns = end,
        .result = result_of(result, kept)});
  return result;
}

#define FB_WRAP_STAT(name, operation)                              \
  FB_WRAP(int, name, (const char* path, void* out)) {              \
    if (!is_on()) return real_##name(path, out);                   \
    const UnderWay call = on_path(operation, AT_FDCWD, path);      \
    const int result = real_##name(path, out);                     \
    note_path(operation, call.start_ns(), AT_FDCWD, path, result); \
    return result;                                                 \
  }
FB_WRAP_STAT(stat, Operation::kStat)
FB_WRAP_STAT(stat64, Operation::kStat)
FB_WRAP_STAT(lstat, Operation::kLstat)
FB_WRAP_STAT(lstat64, Operation::kLstat)

#define FB_WRAP_FSTAT(name)                                       \
  FB_WRAP(int, name, (int fd, void* out)) {                       \
    if (!is_on()) return real_##name(fd, out);                    \
    const UnderWay call = on_file(Operation::kFstat, fd);         \
    const int result = real_##name(fd, out);                      \
    note_on_file(Operation::kFstat, call.start_ns(), fd, result); \
    return result;                                                \
  }
FB_WRAP_FSTAT(fstat)
FB_WRAP_FSTAT(fstat64)

#define FB_WRAP_FSTATAT(name)                                                   \
  FB_WRAP(int, name, (int folder_fd, const char* path, void* out, int flags)) { \
    if (!is_on()) return real_##name(folder_fd, path, out, flags);              \
    const UnderWay call = on_path(Operation::kFstatat, folder_fd, path);        \
    const int result = real_##name(folder_fd, path, out, flags);                \
    note_path(Operation::kFstatat, call.start_ns(), folder_fd, path, result);   \
    return result;                                                              \
  }
FB_WRAP_FSTATAT(fstatat)
FB_WRAP_FSTATAT(fstatat64)

// What programs that were linked with a libc before 2.33 call instead.
#define FB_WRAP_OLD_STAT(name, operation)                          \
  FB_WRAP(int, name, (int version, const char* path, void* out)) { \
    if (!is_on()) return real_##name(version, path, out);          \
    const UnderWay call = on_path(operation, AT_FDCWD, path);      \
    const int result = real_##name(version, path, out);            \
    note_path(operation, call.start_ns(), AT_FDCWD, path, result); \
    return result;                                                 \
  }
FB_WRAP_OLD_STAT(__xstat, Operation::kStat)
FB_WRAP_OLD_STAT(__xstat64, Operation::kStat)
FB_WRAP_OLD_STAT(__lxstat, Operation::kLstat)
FB_WRAP_OLD_STAT(__lxstat64, Operation::kLstat)

#define FB_WRAP_OLD_FSTAT(name)                                   \
  FB_WRAP(int, name, (int version, int fd, void* out)) {          \
    if (!is_on()) return real_##name(version, fd, out);           \
    const UnderWay call = on_file(Operation::kFstat, fd);         \
    const int result = real_##name(version, fd, out);             \
    note_on_file(Operation::kFstat, call.start_ns(), fd, result); \
    return result;                                                \
  }
FB_WRAP_OLD_FSTAT(__fxstat)
FB_WRAP_OLD_FSTAT(__fxstat64)

FB_WRAP(int, statx, (int folder_fd, const char* path, int flags, unsigned mask, void* out)) {
  if (!is_on()) return real_statx(folder_fd, path, flags, mask, out);
  const UnderWay call = on_path(Operation::kStatx, folder_fd, path);
  const int result = real_statx(folder_fd, path, flags, mask, out);
  note_path(Operation::kStatx, call.start_ns(), folder_fd, path, result);
  return result;
}
FB_WRAP(int, access, (const char* path, int mode)) {
  if (!is_on()) return real_access(path, mode);
  const UnderWay call = on_path(Operation::kAccess, AT_FDCWD, path);
  const int result = real_access(path, mode);
  note_path(Operation::kAccess, call.start_ns(), AT_FDCWD, path, result);
  return result;
}
FB_WRAP(int, faccessat, (int folder_fd, const char* path, int mode, int flags)) {
  if (!is_on()) return real_faccessat(folder_fd, path, mode, flags);
  const UnderWay call = on_path(Operation::kAccess, folder_fd, path);
  const int result = real_faccessat(folder_fd, path, mode, flags);
  note_path(Operation::kAccess, call.start_ns(), folder_fd, path, result);
  return result;
}
FB_WRAP(ssize_t, readlink, (const char* path, char* out, size_t size)) {
  if (!is_on()) return real_readlink(path, out, size);
  const UnderWay call = on_path(Operation::kReadlink, AT_FDCWD, path);
  const ssize_t got = real_readlink(path, out, size);
  note_path(Operation::kReadlink, call.start_ns(), AT_FDCWD, path, got);
  return got;
}

#define FB_WRAP_LSEEK(name)                                               \
  FB_WRAP(off_t, name, (int fd, off_t offset, int from)) {                \
    if (!is_on()) return real_##name(fd, offset, from);                   \
    const UnderWay call = on_file(Operation::kLseek, fd);                 \
    const off_t at = real_##name(fd, offset, from);                       \
    note_on_file(Operation::kLseek, call.start_ns(), fd, at < 0 ? -1 : 0, \
                 at < 0 ? kNoOffset : int64_t{at});                       \
    if (at >= 0) set_position(fd, at);                                    \
    return at;                                                            \
  }
FB_WRAP_LSEEK(lseek)
FB_WRAP_LSEEK(lseek64)

#define FB_WRAP_MMAP(name)                                                                      \
  FB_WRAP(void*, name,                                                                          \
          (void* address, size_t size, int protection, int flags, int fd, off_t offset)) {      \
    if (!is_on() || fd < 0 || (flags & MAP_ANONYMOUS) != 0)                                     \
      return real_##name(address, size, protection, flags, fd, offset);                         \
    const UnderWay call = on_file(Operation::kMmap, fd, offset);                                \
    void* memory = real_##name(address, size, protection, flags, fd, offset);                   \
    note_on_file(Operation::kMmap, call.start_ns(), fd, memory == MAP_FAILED ? -1 : 0, offset); \
    return memory;                                                                              \
  }
FB_WRAP_MMAP(mmap)
FB_WRAP_MMAP(mmap64)

FB_WRAP(DIR*, opendir, (const char* path)) {
  if (!is_on()) return real_opendir(path);
  const UnderWay call = on_path(Operation::kOpendir, AT_FDCWD, path);
  DIR* folder = real_opendir(path);
  note_open(Operation::kOpendir, call.start_ns(), folder == nullptr ? -1 : dirfd(folder), AT_FDCWD,
            path, 0);
  return folder;
}
FB_WRAP(int, closedir, (DIR * folder)) {
  if (!is_on() || folder == nullptr || is_in_vfork()) return real_closedir(folder);
  const int fd = dirfd(folder);
  const uint32_t file = file_of(fd);
  const bool is_own = is_own_file(fd);
  forget_file(fd);
  const UnderWay call({.operation = Operation::kClosedir, .file = file, .is_own = is_own});
  const int result = real_closedir(folder);
  const int64_t end = now_ns();
  const KeepErrno kept;
  if (!is_own)
    note({.operation = Operation::kClosedir,
          .start_ns = call.start_ns(),
          .end_ns = end,
          .result = result_of(result, kept),
          .file = file});
  return result;
}
// Most entries come from a buffer: only the calls that fetched more are told.
#define FB_WRAP_READDIR(name)                                               \
  FB_WRAP(void*, name, (DIR * folder)) {                                    \
    if (!is_on()) return real_##name(folder);                               \
    const UnderWay call = on_file(Operation::kReaddir, dirfd(folder));      \
    void* entry = real_##name(folder);                                      \
    if (now_ns() - call.start_ns() >= kShortWaitNs)                         \
      note_on_file(Operation::kReaddir, call.start_ns(), dirfd(folder), 0); \
    return entry;                                                           \
  }
FB_WRAP_READDIR(readdir)
FB_WRAP_READDIR(readdir64)

#define FB_WRAP_SCANDIR(name)                                                            \
  FB_WRAP(int, name, (const char* path, void* list, void* filter, void* compare)) {      \
    if (!is_on()) return real_##name(path, list, filter, compare);                       \
    const UnderWay call = on_path(Operation::kScandir, AT_FDCWD, path);                  \
    const int count = real_##name(path, list, filter, compare);                          \
    note_path(Operation::kScandir, call.start_ns(), AT_FDCWD, path, count < 0 ? -1 : 0); \
    return count;                                                                        \
  }
FB_WRAP_SCANDIR(scandir)
FB_WRAP_SCANDIR(scandir64)

#define FB_WRAP_PATH(name, operation)                              \
  FB_WRAP(int, name, (const char* path)) {                         \
    if (!is_on()) return real_##name(path);                        \
    const UnderWay call = on_path(operation, AT_FDCWD, path);      \
    const int result = real_##name(path);                          \
    note_path(operation, call.start_ns(), AT_FDCWD, path, result); \
    return result;                                                 \
  }
FB_WRAP_PATH(unlink, Operation::kUnlink)
FB_WRAP_PATH(rmdir, Operation::kRmdir)
FB_WRAP_PATH(remove, Operation::kUnlink)

#define FB_WRAP_TWO_PATHS(name, operation)                       \
  FB_WRAP(int, name, (const char* from, const char* to)) {       \
    if (!is_on()) return real_##name(from, to);                  \
    const UnderWay call = on_path(operation, AT_FDCWD, to);      \
    const int result = real_##name(from, to);                    \
    note_path(operation, call.start_ns(), AT_FDCWD, to, result); \
    return result;                                               \
  }
FB_WRAP_TWO_PATHS(rename, Operation::kRename)
FB_WRAP_TWO_PATHS(link, Operation::kLink)
FB_WRAP_TWO_PATHS(symlink, Operation::kLink)

FB_WRAP(int, renameat, (int from_fd, const char* from, int to_fd, const char* to)) {
  if (!is_on()) return real_renameat(from_fd, from, to_fd, to);
  const UnderWay call = on_path(Operation::kRename, to_fd, to);
  const int result = real_renameat(from_fd, from, to_fd, to);
  note_path(Operation::kRename, call.start_ns(), to_fd, to, result);
  return result;
}
FB_WRAP(int, renameat2,
        (int from_fd, const char* from, int to_fd, const char* to, unsigned flags)) {
  if (!is_on()) return real_renameat2(from_fd, from, to_fd, to, flags);
  const UnderWay call = on_path(Operation::kRename, to_fd, to);
  const int result = real_renameat2(from_fd, from, to_fd, to, flags);
  note_path(Operation::kRename, call.start_ns(), to_fd, to, result);
  return result;
}
FB_WRAP(int, unlinkat, (int folder_fd, const char* path, int flags)) {
  if (!is_on()) return real_unlinkat(folder_fd, path, flags);
  const UnderWay call = on_path(
      (flags & AT_REMOVEDIR) != 0 ? Operation::kRmdir : Operation::kUnlink, folder_fd, path);
  const int result = real_unlinkat(folder_fd, path, flags);
  note_path((flags & AT_REMOVEDIR) != 0 ? Operation::kRmdir : Operation::kUnlink, call.start_ns(),
            folder_fd, path, result);
  return result;
}
FB_WRAP(int, mkdir, (const char* path, mode_t mode)) {
  if (!is_on()) return real_mkdir(path, mode);
  const UnderWay call = on_path(Operation::kMkdir, AT_FDCWD, path);
  const int result = real_mkdir(path, mode);
  note_path(Operation::kMkdir, call.start_ns(), AT_FDCWD, path, result);
  return result;
}
FB_WRAP(int, mkdirat, (int folder_fd, const char* path, mode_t mode)) {
  if (!is_on()) return real_mkdirat(folder_fd, path, mode);
  const UnderWay call = on_path(Operation::kMkdir, folder_fd, path);
  const int result = real_mkdirat(folder_fd, path, mode);
  note_path(Operation::kMkdir, call.start_ns(), folder_fd, path, result);
  return result;
}

#define FB_WRAP_TRUNCATE(name)                                                \
  FB_WRAP(int, name, (const char* path, off_t size)) {                        \
    if (!is_on()) return real_##name(path, size);                             \
    const UnderWay call = on_path(Operation::kTruncate, AT_FDCWD, path);      \
    const int result = real_##name(path, size);                               \
    note_path(Operation::kTruncate, call.start_ns(), AT_FDCWD, path, result); \
    return result;                                                            \
  }
FB_WRAP_TRUNCATE(truncate)
FB_WRAP_TRUNCATE(truncate64)

#define FB_WRAP_FTRUNCATE(name)                                       \
  FB_WRAP(int, name, (int fd, off_t size)) {                          \
    if (!is_on()) return real_##name(fd, size);                       \
    const UnderWay call = on_file(Operation::kFtruncate, fd);         \
    const int result = real_##name(fd, size);                         \
    note_on_file(Operation::kFtruncate, call.start_ns(), fd, result); \
    return result;                                                    \
  }
FB_WRAP_FTRUNCATE(ftruncate)
FB_WRAP_FTRUNCATE(ftruncate64)

FB_WRAP(int, chdir, (const char* path)) {
  const int result = real_chdir(path);
  if (result == 0 && is_on() && !is_in_vfork()) note_working_folder();
  return result;
}
FB_WRAP(int, fchdir, (int fd)) {
  const int result = real_fchdir(fd);
  if (result == 0 && is_on() && !is_in_vfork()) note_working_folder();
  return result;
}

}  // namespace forebay::record::interposer

// NOLINTEND(bugprone-reserved-identifier)
