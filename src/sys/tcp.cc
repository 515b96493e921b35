#include "sys/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace forebay::sys {
namespace {

constexpr int kBacklog = 4096;  // the kernel takes what it allows

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Without a host: every address of this machine, of either family where that is possible.
Result<Addresses> addresses_of(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (host.empty() ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  const int error =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &found);
  if (error != 0) return fail(ErrorCode::kIo, "{}: {}", host, ::gai_strerror(error));
  return Addresses(found);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

ScopedFd open_socket(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return ScopedFd(fd >= 0 ? fd : -errno);
}

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);  // a refusal costs speed, or a retry
}

// 0 or the errno that kept it from listening there.
int try_listen(const addrinfo& address, ScopedFd& out) {
  ScopedFd fd = open_socket(address);
  if (!fd.is_open()) return -fd.get();
  // Connections of a run before that the kernel still remembers are in nobody's way.
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0) return errno;
  if (::listen(fd.get(), kBacklog) != 0) return errno;
  out = std::move(fd);
  return 0;
}

bool wait_for(int fd, short events, int64_t timeout_ns) {
  pollfd one{fd, events, 0};
  const int64_t milliseconds = (timeout_ns + 999'999) / 1'000'000;
  int ready = 0;
  do {
    ready = ::poll(&one, 1, static_cast<int>(milliseconds));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// Small messages that are answered at once: nothing is gained by waiting for more.
void prepare(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

// 0 or an errno.
int try_connect(const addrinfo& address, int64_t timeout_ns, ScopedFd& out) {
  ScopedFd fd = open_socket(address);
  if (!fd.is_open()) return -fd.get();
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    if (!wait_for(fd.get(), POLLOUT, timeout_ns)) return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
    if (error != 0) return error;
  }
  // A port that nobody listens at may be given to the caller itself, who then talks to himself.
  sockaddr_storage own{}, other{};
  socklen_t own_size = sizeof own, other_size = sizeof other;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &own_size);
  ::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&other), &other_size);
  if (own_size == other_size && std::memcmp(&own, &other, own_size) == 0) return ECONNREFUSED;
  prepare(fd.get());
  out = std::move(fd);
  return 0;
}

Error socket_error(const std::string& host, int port, int error_number) {
  return error_from_errno(error_number, fmt::format("{}:{}", host, port));
}

bool is_for_later(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK;
}

}  // namespace

Result<ScopedFd> listen_tcp(const std::string& host, int port) {
  // A machine's own name may stand for a loopback address there, and for another elsewhere.
  const Addresses found = FB_TRY(addresses_of(is_loopback(host) ? host : "", port));
  ScopedFd fd;
  int first_error = 0;
  for (const int family : {AF_INET6, AF_INET}) {  // the former takes both
    for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
      if (one->ai_family != family) continue;
      const int error = try_listen(*one, fd);
      if (error == 0) return fd;
      if (error == EADDRINUSE)
        return fail(ErrorCode::kResourceExhausted, "port {} is in use", port);
      if (first_error == 0) first_error = error;
    }
  }
  return socket_error(host, port, first_error);
}

Result<int> port_of(const ScopedFd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return error_from_errno(errno, "a socket");
  const bool is_six = address.ss_family == AF_INET6;
  return ntohs(is_six ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                      : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Result<std::optional<ScopedFd>> accept_tcp(const ScopedFd& listener, int64_t timeout_ns) {
  if (!wait_for(listener.get(), POLLIN, timeout_ns)) return std::optional<ScopedFd>();
  const int fd = ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE)) return error_from_errno(errno, "a socket");
  if (fd < 0) return std::optional<ScopedFd>();  // it has gone again
  prepare(fd);
  return std::optional<ScopedFd>(ScopedFd(fd));
}

Result<ScopedFd> connect_tcp(const std::string& host, int port, int64_t timeout_ns) {
  const Addresses found = FB_TRY(addresses_of(host, port));
  ScopedFd fd;
  int error = EHOSTUNREACH;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    error = try_connect(*one, timeout_ns, fd);
    if (error == 0) return fd;
  }
  return socket_error(host, port, error);
}

std::string peer_address(const ScopedFd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[NI_MAXHOST] = {};
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return "";
  return text;
}

Result<size_t> send_some(const ScopedFd& socket, std::span<const std::byte> bytes) {
  for (;;) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (is_for_later(errno)) return size_t{0};
    if (errno != EINTR) return error_from_errno(errno, "the connection");
  }
}

Result<std::optional<size_t>> receive_some(const ScopedFd& socket, std::span<std::byte> out) {
  for (;;) {
    const ssize_t got = ::recv(socket.get(), out.data(), out.size(), 0);
    if (got > 0) return std::optional<size_t>(static_cast<size_t>(got));
    if (got == 0) return std::optional<size_t>();
    if (is_for_later(errno)) return std::optional<size_t>(0);
    if (errno != EINTR) return error_from_errno(errno, "the connection");
  }
}

void end_sending(const ScopedFd& socket) {
  ::shutdown(socket.get(), SHUT_WR);
}

bool wait_readable(const ScopedFd& socket, int64_t timeout_ns) {
  return wait_for(socket.get(), POLLIN, timeout_ns);
}

bool wait_writable(const ScopedFd& socket, int64_t timeout_ns) {
  return wait_for(socket.get(), POLLOUT, timeout_ns);
}

}  // namespace forebay::sys
