// The calls that wait: for another thread or process, for readiness, for time, for a signal, for a
// peer. Waits that end at once are not told.
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "record/interposer/files.h"
#include "record/interposer/log.h"
#include "record/interposer/wrap.h"

// NOLINTBEGIN(bugprone-reserved-identifier): names of libc's own.

namespace forebay::record::interposer {

// A call with arguments of any types that is told when it took time.
#define FB_WRAP_WAIT(result, name, kind, parameters, arguments) \
  FB_WRAP(result, name, parameters) {                           \
    if (!is_on()) return real_##name arguments;                 \
    const UnderWay call({.operation = kind});                   \
    const result got = real_##name arguments;                   \
    note_wait(kind, call.start_ns());                           \
    return got;                                                 \
  }

FB_WRAP_WAIT(int, pthread_cond_wait, Operation::kCondWait,
             (pthread_cond_t * condition, pthread_mutex_t* mutex), (condition, mutex))
FB_WRAP_WAIT(int, pthread_cond_timedwait, Operation::kCondTimedwait,
             (pthread_cond_t * condition, pthread_mutex_t* mutex, const timespec* until),
             (condition, mutex, until))
FB_WRAP_WAIT(int, pthread_cond_clockwait, Operation::kCondTimedwait,
             (pthread_cond_t * condition, pthread_mutex_t* mutex, clockid_t clock,
              const timespec* until),
             (condition, mutex, clock, until))
FB_WRAP_WAIT(int, pthread_barrier_wait, Operation::kBarrierWait, (pthread_barrier_t * barrier),
             (barrier))
FB_WRAP_WAIT(int, pthread_join, Operation::kJoin, (pthread_t thread, void** value), (thread, value))
FB_WRAP_WAIT(int, sem_timedwait, Operation::kSemTimedwait,
             (sem_t * semaphore, const timespec* until), (semaphore, until))
FB_WRAP_WAIT(int, sem_clockwait, Operation::kSemTimedwait,
             (sem_t * semaphore, clockid_t clock, const timespec* until), (semaphore, clock, until))

// A free lock is taken without a look at the clock; any answer but "busy" is what locking would
// have said.
FB_WRAP(int, pthread_mutex_lock, (pthread_mutex_t * mutex)) {
  if (!is_on()) return real_pthread_mutex_lock(mutex);
  const int tried = pthread_mutex_trylock(mutex);
  if (tried != EBUSY) return tried;
  const UnderWay call({.operation = Operation::kMutexLock});
  const int got = real_pthread_mutex_lock(mutex);
  note_wait(Operation::kMutexLock, call.start_ns());
  return got;
}
FB_WRAP(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock)) {
  if (!is_on()) return real_pthread_rwlock_rdlock(lock);
  const int tried = pthread_rwlock_tryrdlock(lock);
  if (tried != EBUSY) return tried;
  const UnderWay call({.operation = Operation::kRwlockRdlock});
  const int got = real_pthread_rwlock_rdlock(lock);
  note_wait(Operation::kRwlockRdlock, call.start_ns());
  return got;
}
FB_WRAP(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock)) {
  if (!is_on()) return real_pthread_rwlock_wrlock(lock);
  const int tried = pthread_rwlock_trywrlock(lock);
  if (tried != EBUSY) return tried;
  const UnderWay call({.operation = Operation::kRwlockWrlock});
  const int got = real_pthread_rwlock_wrlock(lock);
  note_wait(Operation::kRwlockWrlock, call.start_ns());
  return got;
}
FB_WRAP(int, sem_wait, (sem_t * semaphore)) {
  if (!is_on()) return real_sem_wait(semaphore);
  const int before = errno;
  if (sem_trywait(semaphore) == 0) return 0;
  errno = before;
  const UnderWay call({.operation = Operation::kSemWait});
  const int got = real_sem_wait(semaphore);
  note_wait(Operation::kSemWait, call.start_ns());
  return got;
}

FB_WRAP_WAIT(int, poll, Operation::kPoll, (pollfd * fds, nfds_t count, int timeout),
             (fds, count, timeout))
FB_WRAP_WAIT(int, __poll_chk, Operation::kPoll,
             (pollfd * fds, nfds_t count, int timeout, size_t room), (fds, count, timeout, room))
FB_WRAP_WAIT(int, ppoll, Operation::kPoll,
             (pollfd * fds, nfds_t count, const timespec* timeout, const sigset_t* mask),
             (fds, count, timeout, mask))
FB_WRAP_WAIT(int, select, Operation::kSelect,
             (int count, fd_set* in, fd_set* out, fd_set* other, timeval* timeout),
             (count, in, out, other, timeout))
FB_WRAP_WAIT(int, pselect, Operation::kSelect,
             (int count, fd_set* in, fd_set* out, fd_set* other, const timespec* timeout,
              const sigset_t* mask),
             (count, in, out, other, timeout, mask))
FB_WRAP_WAIT(int, epoll_wait, Operation::kEpollWait,
             (int fd, epoll_event* events, int count, int timeout), (fd, events, count, timeout))
FB_WRAP_WAIT(int, epoll_pwait, Operation::kEpollWait,
             (int fd, epoll_event* events, int count, int timeout, const sigset_t* mask),
             (fd, events, count, timeout, mask))
FB_WRAP_WAIT(int, epoll_pwait2, Operation::kEpollWait,
             (int fd, epoll_event* events, int count, const timespec* timeout,
              const sigset_t* mask),
             (fd, events, count, timeout, mask))
FB_WRAP_WAIT(int, nanosleep, Operation::kNanosleep, (const timespec* time, timespec* left),
             (time, left))
FB_WRAP_WAIT(int, clock_nanosleep, Operation::kClockNanosleep,
             (clockid_t clock, int flags, const timespec* time, timespec* left),
             (clock, flags, time, left))
FB_WRAP_WAIT(unsigned, sleep, Operation::kSleep, (unsigned seconds), (seconds))
FB_WRAP_WAIT(int, usleep, Operation::kUsleep, (useconds_t time), (time))
FB_WRAP_WAIT(pid_t, wait, Operation::kWaitpid, (int* status), (status))
FB_WRAP_WAIT(pid_t, waitpid, Operation::kWaitpid, (pid_t pid, int* status, int options),
             (pid, status, options))
FB_WRAP_WAIT(pid_t, wait3, Operation::kWaitpid, (int* status, int options, void* usage),
             (status, options, usage))
FB_WRAP_WAIT(pid_t, wait4, Operation::kWaitpid, (pid_t pid, int* status, int options, void* usage),
             (pid, status, options, usage))
FB_WRAP_WAIT(int, waitid, Operation::kWaitpid,
             (idtype_t type, id_t id, siginfo_t* info, int options), (type, id, info, options))

// Launchers wait for a signal: that their child ended.
FB_WRAP_WAIT(int, sigsuspend, Operation::kSigsuspend, (const sigset_t* mask), (mask))
FB_WRAP_WAIT(int, pause, Operation::kPause, (), ())
FB_WRAP_WAIT(int, sigwait, Operation::kSigtimedwait, (const sigset_t* set, int* signal),
             (set, signal))
FB_WRAP_WAIT(int, sigwaitinfo, Operation::kSigtimedwait, (const sigset_t* set, siginfo_t* info),
             (set, info))
FB_WRAP_WAIT(int, sigtimedwait, Operation::kSigtimedwait,
             (const sigset_t* set, siginfo_t* info, const timespec* timeout), (set, info, timeout))

// Locks on files, which other processes hold.
#define FB_WRAP_FILE_LOCK(name, kind, may_wait, parameters, arguments) \
  FB_WRAP(int, name, parameters) {                                     \
    if (!is_on() || !(may_wait)) return real_##name arguments;         \
    const uint32_t file = file_of(fd);                                 \
    const UnderWay call({.operation = kind, .file = file});            \
    const int got = real_##name arguments;                             \
    note_wait(kind, call.start_ns(), file);                            \
    return got;                                                        \
  }
FB_WRAP_FILE_LOCK(flock, Operation::kFlock, (how & (LOCK_NB | LOCK_UN)) == 0, (int fd, int how),
                  (fd, how))
FB_WRAP_FILE_LOCK(lockf, Operation::kFcntl, what == F_LOCK, (int fd, int what, off_t size),
                  (fd, what, size))
FB_WRAP_FILE_LOCK(lockf64, Operation::kFcntl, what == F_LOCK, (int fd, int what, off64_t size),
                  (fd, what, size))
FB_WRAP_FILE_LOCK(fcntl, Operation::kFcntl, what == F_SETLKW || what == F_OFD_SETLKW,
                  (int fd, int what, long argument), (fd, what, argument))
FB_WRAP_FILE_LOCK(fcntl64, Operation::kFcntl, what == F_SETLKW || what == F_OFD_SETLKW,
                  (int fd, int what, long argument), (fd, what, argument))

// These wait for a child inside libc, past any function that could be wrapped.
FB_WRAP(int, system, (const char* command)) {
  if (!is_on() || command == nullptr) return real_system(command);
  const UnderWay call({.operation = Operation::kWaitpid});
  const int got = real_system(command);
  note_wait(Operation::kWaitpid, call.start_ns());
  return got;
}
FB_WRAP(int, pclose, (FILE * stream)) {
  if (!is_on() || stream == nullptr) return real_pclose(stream);
  forget_file(stream->_fileno);
  const UnderWay call({.operation = Operation::kWaitpid});
  const int got = real_pclose(stream);
  note_wait(Operation::kWaitpid, call.start_ns());
  return got;
}

// A call on a socket.
#define FB_WRAP_SOCKET(type, name, kind, fd, parameters, arguments) \
  FB_WRAP(type, name, parameters) {                                 \
    if (!is_on()) return real_##name arguments;                     \
    const uint32_t file = file_of(fd);                              \
    const UnderWay call({.operation = kind, .file = file});         \
    const type got = real_##name arguments;                         \
    const int64_t end = now_ns();                                   \
    const KeepErrno kept;                                           \
    note({.operation = kind,                                        \
          .start_ns = call.start_ns(),                              \
          .end_ns = end,                                            \
          .result = result_of(got, kept),                           \
          .file = file});                                           \
    return got;                                                     \
  }
FB_WRAP_SOCKET(ssize_t, send, Operation::kSend, fd,
               (int fd, const void* bytes, size_t size, int flags), (fd, bytes, size, flags))
FB_WRAP_SOCKET(ssize_t, sendto, Operation::kSend, fd,
               (int fd, const void* bytes, size_t size, int flags, const void* to,
                socklen_t length),
               (fd, bytes, size, flags, to, length))
FB_WRAP_SOCKET(ssize_t, sendmsg, Operation::kSendmsg, fd,
               (int fd, const msghdr* message, int flags), (fd, message, flags))
FB_WRAP_SOCKET(ssize_t, recv, Operation::kRecv, fd, (int fd, void* out, size_t size, int flags),
               (fd, out, size, flags))
FB_WRAP_SOCKET(ssize_t, __recv_chk, Operation::kRecv, fd,
               (int fd, void* out, size_t size, size_t room, int flags),
               (fd, out, size, room, flags))
FB_WRAP_SOCKET(ssize_t, recvfrom, Operation::kRecv, fd,
               (int fd, void* out, size_t size, int flags, void* from, socklen_t* length),
               (fd, out, size, flags, from, length))
FB_WRAP_SOCKET(ssize_t, recvmsg, Operation::kRecvmsg, fd, (int fd, msghdr* message, int flags),
               (fd, message, flags))

// The peer is known from here on: a name that was looked up before is old.
FB_WRAP(int, connect, (int fd, const void* address, socklen_t size)) {
  if (!is_on()) return real_connect(fd, address, size);
  forget_file(fd);
  const UnderWay call({.operation = Operation::kConnect});
  const int got = real_connect(fd, address, size);
  const int64_t end = now_ns();
  const KeepErrno kept;
  const uint32_t file = got == 0 ? file_of(fd) : 0;
  note({.operation = Operation::kConnect,
        .start_ns = call.start_ns(),
        .end_ns = end,
        .result = result_of(got, kept),
        .file = file});
  return got;
}

#define FB_WRAP_ACCEPT(name, parameters, arguments)                              \
  FB_WRAP(int, name, parameters) {                                               \
    if (!is_on()) return real_##name arguments;                                  \
    const UnderWay call({.operation = Operation::kAccept, .file = file_of(fd)}); \
    const int got = real_##name arguments;                                       \
    const int64_t end = now_ns();                                                \
    const KeepErrno kept;                                                        \
    if (got >= 0) forget_file(got);                                              \
    note({.operation = Operation::kAccept,                                       \
          .start_ns = call.start_ns(),                                           \
          .end_ns = end,                                                         \
          .result = result_of(got < 0 ? -1 : 0, kept),                           \
          .file = got >= 0 ? file_of(got) : 0});                                 \
    return got;                                                                  \
  }
FB_WRAP_ACCEPT(accept, (int fd, void* address, socklen_t* size), (fd, address, size))
FB_WRAP_ACCEPT(accept4, (int fd, void* address, socklen_t* size, int flags),
               (fd, address, size, flags))

// Some programs make these calls by number. Calls of files go by their own wrappers.
FB_WRAP(long, syscall, (long number, long a, long b, long c, long d, long e, long f)) {
  if (!is_on()) return real_syscall(number, a, b, c, d, e, f);
  switch (number) {
    case SYS_read:
      return ::read(static_cast<int>(a), reinterpret_cast<void*>(b), static_cast<size_t>(c));
    case SYS_write:
      return ::write(static_cast<int>(a), reinterpret_cast<const void*>(b), static_cast<size_t>(c));
    case SYS_pread64:
      return ::pread(static_cast<int>(a), reinterpret_cast<void*>(b), static_cast<size_t>(c), d);
    case SYS_pwrite64:
      return ::pwrite(static_cast<int>(a), reinterpret_cast<const void*>(b), static_cast<size_t>(c),
                      d);
    case SYS_openat:
      return ::openat(static_cast<int>(a), reinterpret_cast<const char*>(b), static_cast<int>(c),
                      static_cast<mode_t>(d));
    case SYS_close:
      return ::close(static_cast<int>(a));
    case SYS_fsync:
      return ::fsync(static_cast<int>(a));
    case SYS_fdatasync:
      return ::fdatasync(static_cast<int>(a));
    case SYS_futex: {
      const long what = b & FUTEX_CMD_MASK;
      if (what != FUTEX_WAIT && what != FUTEX_WAIT_BITSET) break;
      const UnderWay call({.operation = Operation::kFutex});
      const long got = real_syscall(number, a, b, c, d, e, f);
      note_wait(Operation::kFutex, call.start_ns());
      return got;
    }
    case SYS_wait4:
    case SYS_waitid: {
      const UnderWay call({.operation = Operation::kWaitpid});
      const long got = real_syscall(number, a, b, c, d, e, f);
      note_wait(Operation::kWaitpid, call.start_ns());
      return got;
    }
    default:
      break;
  }
  return real_syscall(number, a, b, c, d, e, f);
}

}  // namespace forebay::record::interposer

// NOLINTEND(bugprone-reserved-identifier)
