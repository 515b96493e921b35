#include "sys/system_call.h"

#include <sys/syscall.h>

#include <algorithm>
#include <iterator>

namespace forebay::sys {

namespace {

struct Call {
  int number;
  std::string_view name;
};

#define FB_CALL(name) \
  Call {              \
    SYS_##name, #name \
  }
// Those that read, write, name files or wait.
constexpr Call kCalls[] = {
    FB_CALL(read),
    FB_CALL(write),
    FB_CALL(close),
    FB_CALL(fstat),
    FB_CALL(lseek),
    FB_CALL(mmap),
    FB_CALL(munmap),
    FB_CALL(mprotect),
    FB_CALL(brk),
    FB_CALL(ioctl),
    FB_CALL(pread64),
    FB_CALL(pwrite64),
    FB_CALL(readv),
    FB_CALL(writev),
    FB_CALL(sched_yield),
    FB_CALL(mremap),
    FB_CALL(msync),
    FB_CALL(madvise),
    FB_CALL(nanosleep),
    FB_CALL(getitimer),
    FB_CALL(sendfile),
    FB_CALL(socket),
    FB_CALL(connect),
    FB_CALL(accept),
    FB_CALL(sendto),
    FB_CALL(recvfrom),
    FB_CALL(sendmsg),
    FB_CALL(recvmsg),
    FB_CALL(shutdown),
    FB_CALL(bind),
    FB_CALL(listen),
    FB_CALL(socketpair),
    FB_CALL(clone),
    FB_CALL(execve),
    FB_CALL(exit),
    FB_CALL(wait4),
    FB_CALL(kill),
    FB_CALL(semop),
    FB_CALL(semtimedop),
    FB_CALL(msgsnd),
    FB_CALL(msgrcv),
    FB_CALL(fcntl),
    FB_CALL(flock),
    FB_CALL(fsync),
    FB_CALL(fdatasync),
    FB_CALL(truncate),
    FB_CALL(ftruncate),
    FB_CALL(getdents64),
    FB_CALL(chdir),
    FB_CALL(fchdir),
    FB_CALL(fchmod),
    FB_CALL(fchown),
    FB_CALL(ptrace),
    FB_CALL(rt_sigsuspend),
    FB_CALL(rt_sigtimedwait),
    FB_CALL(sync),
    FB_CALL(mount),
    FB_CALL(umount2),
    FB_CALL(futex),
    FB_CALL(io_setup),
    FB_CALL(io_getevents),
    FB_CALL(io_submit),
    FB_CALL(io_destroy),
    FB_CALL(fadvise64),
    FB_CALL(clock_nanosleep),
    FB_CALL(exit_group),
    FB_CALL(openat),
    FB_CALL(mkdirat),
    FB_CALL(newfstatat),
    FB_CALL(unlinkat),
    FB_CALL(renameat),
    FB_CALL(linkat),
    FB_CALL(symlinkat),
    FB_CALL(readlinkat),
    FB_CALL(faccessat),
    FB_CALL(pselect6),
    FB_CALL(ppoll),
    FB_CALL(epoll_pwait),
    FB_CALL(fallocate),
    FB_CALL(accept4),
    FB_CALL(eventfd2),
    FB_CALL(preadv),
    FB_CALL(pwritev),
    FB_CALL(recvmmsg),
    FB_CALL(sendmmsg),
    FB_CALL(syncfs),
    FB_CALL(renameat2),
    FB_CALL(getrandom),
    FB_CALL(memfd_create),
    FB_CALL(execveat),
    FB_CALL(membarrier),
    FB_CALL(mlock),
    FB_CALL(munlock),
    FB_CALL(mlockall),
    FB_CALL(userfaultfd),
    FB_CALL(mlock2),
    FB_CALL(copy_file_range),
    FB_CALL(preadv2),
    FB_CALL(pwritev2),
    FB_CALL(statx),
    FB_CALL(io_uring_setup),
    FB_CALL(io_uring_enter),
    FB_CALL(io_uring_register),
    FB_CALL(pidfd_open),
    FB_CALL(clone3),
    FB_CALL(close_range),
    FB_CALL(openat2),
    FB_CALL(faccessat2),
    FB_CALL(process_madvise),
    FB_CALL(epoll_pwait2),
    FB_CALL(waitid),
    FB_CALL(splice),
    FB_CALL(tee),
    FB_CALL(vmsplice),
    FB_CALL(sync_file_range),
    FB_CALL(process_vm_readv),
    FB_CALL(setns),
    FB_CALL(unshare),
    FB_CALL(quotactl),
    FB_CALL(swapon),
    FB_CALL(swapoff),
    FB_CALL(init_module),
    FB_CALL(finit_module),
    FB_CALL(delete_module),
    FB_CALL(mbind),
    FB_CALL(migrate_pages),
    FB_CALL(move_pages),
    FB_CALL(keyctl),
    FB_CALL(request_key),
    FB_CALL(perf_event_open),
    FB_CALL(bpf),
    FB_CALL(seccomp),
    FB_CALL(restart_syscall),
    FB_CALL(rt_sigreturn),
    FB_CALL(rt_sigaction),
    FB_CALL(rt_sigprocmask),
    FB_CALL(timerfd_settime),
#ifdef SYS_open  // what newer architectures left out
    FB_CALL(open),
    FB_CALL(stat),
    FB_CALL(lstat),
    FB_CALL(poll),
    FB_CALL(access),
    FB_CALL(pipe),
    FB_CALL(select),
    FB_CALL(fork),
    FB_CALL(vfork),
    FB_CALL(getdents),
    FB_CALL(rename),
    FB_CALL(mkdir),
    FB_CALL(rmdir),
    FB_CALL(creat),
    FB_CALL(link),
    FB_CALL(unlink),
    FB_CALL(symlink),
    FB_CALL(readlink),
    FB_CALL(epoll_wait),
    FB_CALL(pause),
    FB_CALL(signalfd),
    FB_CALL(chmod),
    FB_CALL(chown),
#endif
};
#undef FB_CALL

}  // namespace

std::optional<int> system_call_number(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kCalls), std::end(kCalls),
                                         [&](const Call& call) { return call.name == name; });
  if (found == std::end(kCalls)) return std::nullopt;
  return found->number;
}

std::string system_call_name(int number) {
  const auto* const found = std::find_if(std::begin(kCalls), std::end(kCalls),
                                         [&](const Call& call) { return call.number == number; });
  if (found == std::end(kCalls)) return "system call " + std::to_string(number);
  return std::string(found->name);
}

}  // namespace forebay::sys
