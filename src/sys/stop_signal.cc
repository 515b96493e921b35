#include "sys/stop_signal.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"
#include "sys/thread.h"

namespace forebay::sys {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);  // a lost terminal must not lose the result
  return set;
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t set = stop_signals();
  FB_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  event_fd_ = eventfd(0, EFD_CLOEXEC);
  FB_CHECK(event_fd_ >= 0);
  auto thread = start_thread("signals", [this](const std::stop_token& own) {
    const sigset_t signals = stop_signals();
    const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    int received = 0;
    while (signal_fd >= 0 && !own.stop_requested()) {
      pollfd fds[2] = {{signal_fd, POLLIN, 0}, {event_fd_, POLLIN, 0}};
      if (poll(fds, 2, -1) < 0) continue;
      if ((fds[0].revents & POLLIN) == 0) continue;
      signalfd_siginfo info{};
      if (read(signal_fd, &info, sizeof info) != sizeof info) continue;
      source_.request_stop();
      if (++received >= 3) _exit(130);  // the user insists
    }
    if (signal_fd >= 0) close(signal_fd);
  });
  if (thread.ok())
    waiter_ = std::move(thread).take();
  else
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // signals then end the process as usual
}

StopSignal::~StopSignal() {
  waiter_.request_stop();
  const uint64_t one = 1;
  if (write(event_fd_, &one, sizeof one) != sizeof one) FB_CHECK(false);
  if (waiter_.joinable()) waiter_.join();
  close(event_fd_);
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace forebay::sys
