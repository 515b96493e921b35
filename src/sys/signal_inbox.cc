#include "sys/signal_inbox.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"

namespace forebay::sys {
namespace {

sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD})
    sigaddset(&set, number);
  return set;
}

}  // namespace

static_assert(kKillSignal == SIGKILL);

SignalInbox::SignalInbox() {
  const sigset_t set = signals();
  sigset_t before;
  FB_CHECK(pthread_sigmask(SIG_BLOCK, &set, &before) == 0);
  is_first_ = sigismember(&before, SIGINT) == 0;
  fd_ = ScopedFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  FB_CHECK(fd_.is_open());
}

SignalInbox::~SignalInbox() {
  if (!is_first_) return;
  const sigset_t set = signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

std::optional<ReceivedSignal> SignalInbox::wait(int64_t timeout_ns) {
  timeout_ns = std::max<int64_t>(timeout_ns, 0);
  const timespec timeout{.tv_sec = timeout_ns / 1'000'000'000,
                         .tv_nsec = timeout_ns % 1'000'000'000};
  pollfd fd{fd_.get(), POLLIN, 0};
  if (::ppoll(&fd, 1, &timeout, nullptr) <= 0) return std::nullopt;
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  const int number = static_cast<int>(info.ssi_signo);
  if (number == SIGCHLD) return std::nullopt;
  return ReceivedSignal{.number = number, .is_from_terminal = info.ssi_code == SI_KERNEL};
}

bool is_interrupt(int signal) {
  return signal == SIGINT;
}

const char* signal_name(int signal) {
  switch (signal) {
    case SIGHUP:
      return "SIGHUP";
    case SIGINT:
      return "SIGINT";
    case SIGQUIT:
      return "SIGQUIT";
    case SIGILL:
      return "SIGILL";
    case SIGABRT:
      return "SIGABRT";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGKILL:
      return "SIGKILL";
    case SIGSEGV:
      return "SIGSEGV";
    case SIGPIPE:
      return "SIGPIPE";
    case SIGALRM:
      return "SIGALRM";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "a signal";
  }
}

}  // namespace forebay::sys
