#include "sys/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/check.h"

namespace forebay::sys {
namespace {

constexpr size_t kEventsAtOnce = 128;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kTimeoutMaxMs = 3'600'000;

}  // namespace

Result<std::unique_ptr<Poller>> Poller::open() {
  ScopedFd poll(::epoll_create1(EPOLL_CLOEXEC));
  if (!poll.is_open()) return error_from_errno(errno, "epoll");
  ScopedFd signal(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signal.is_open()) return error_from_errno(errno, "eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = signal.get();
  if (::epoll_ctl(poll.get(), EPOLL_CTL_ADD, signal.get(), &event) != 0)
    return error_from_errno(errno, "epoll");
  return std::unique_ptr<Poller>(new Poller(std::move(poll), std::move(signal)));
}

int Poller::watch(int fd, bool for_reading, bool for_writing) {
  epoll_event event{};
  event.events = (for_reading ? static_cast<uint32_t>(EPOLLIN) : 0U) |
                 (for_writing ? static_cast<uint32_t>(EPOLLOUT) : 0U);
  event.data.fd = fd;
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return 0;
  if (errno == ENOENT && ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return 0;
  return -errno;
}

void Poller::forget(int fd) {
  // A descriptor that was closed has left by itself.
  epoll_event unused{};
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, fd, &unused);
}

size_t Poller::wait(std::span<PollerEvent> out, int64_t timeout_ns) {
  std::array<epoll_event, kEventsAtOnce> events;
  const int room = static_cast<int>(std::min(out.size(), events.size()));
  FB_CHECK(room > 0);
  const int timeout_ms =
      timeout_ns < 0
          ? -1
          : static_cast<int>(std::min(kTimeoutMaxMs, (timeout_ns + kNsPerMs - 1) / kNsPerMs));
  const int count = ::epoll_wait(poll_.get(), events.data(), room, timeout_ms);
  size_t filled = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.fd == signal_.get()) {
      uint64_t value = 0;
      // Non-blocking: an empty counter only means that somebody was here before.
      [[maybe_unused]] const ssize_t got = ::read(signal_.get(), &value, sizeof value);
      continue;
    }
    out[filled++] = {.fd = event.data.fd,
                     .is_readable = (event.events & EPOLLIN) != 0,
                     .is_writable = (event.events & EPOLLOUT) != 0,
                     .is_broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0};
  }
  return filled;
}

void Poller::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(signal_.get(), &one, sizeof one);
}

}  // namespace forebay::sys
