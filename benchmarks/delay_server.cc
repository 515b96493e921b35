#include "delay_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <map>
#include <queue>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "fmt/format.h"

namespace forebay::bench {
namespace {

constexpr int kBacklog = 4096;
constexpr int kTurnMs = 1;  // how late an answer may be

int64_t now_ns() {
  return base::monotonic_clock().now_ns();
}

struct Connection {
  std::string asked;  // not yet answered, to the end of a head
  std::string head;   // of the answer under way
  uint64_t body_left = 0;
};

struct Due {
  int64_t time_ns;
  int fd;
  bool operator>(const Due& other) const { return time_ns > other.time_ns; }
};

// The number behind `from` in text[at...].
uint64_t number_at(std::string_view text, size_t at) {
  uint64_t value = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

}  // namespace

class DelayServer::Impl {
 public:
  Impl(int64_t delay_ns, uint64_t object_bytes)
      : delay_ns_(delay_ns), object_bytes_(object_bytes), zeros_(256 << 10, '\0') {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    FB_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    FB_CHECK(::listen(listener_, kBacklog) == 0);
    socklen_t size = sizeof address;
    FB_CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    poll_ = ::epoll_create1(EPOLL_CLOEXEC);
    watch(listener_, EPOLLIN, EPOLL_CTL_ADD);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Impl() {
    thread_.request_stop();
    thread_.join();
    for (const auto& [fd, connection] : connections_) ::close(fd);
    ::close(poll_);
    ::close(listener_);
  }
  int port() const { return port_; }

 private:
  void watch(int fd, uint32_t events, int how) const {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    ::epoll_ctl(poll_, how, fd, &event);
  }

  void run(const std::stop_token& stop) {
    std::array<epoll_event, 256> events;
    while (!stop.stop_requested()) {
      const int count =
          ::epoll_wait(poll_, events.data(), events.size(), due_.empty() ? 20 : kTurnMs);
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<size_t>(i)].data.fd;
        if (fd == listener_) {
          accept_all();
        } else if ((events[static_cast<size_t>(i)].events & EPOLLOUT) != 0) {
          send_more(fd);
        } else {
          receive(fd);
        }
      }
      const int64_t now = now_ns();
      while (!due_.empty() && due_.top().time_ns <= now) {
        const int fd = due_.top().fd;
        due_.pop();
        answer(fd);
      }
    }
  }

  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      const int one = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      connections_[fd] = {};
      watch(fd, EPOLLIN, EPOLL_CTL_ADD);
    }
  }

  void receive(int fd) {
    std::array<char, 16384> buffer;
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got <= 0) {
      if (got < 0 && errno == EAGAIN) return;
      connections_.erase(fd);
      ::close(fd);
      return;
    }
    std::string& asked = connections_[fd].asked;
    asked.append(buffer.data(), static_cast<size_t>(got));
    if (asked.ends_with("\r\n\r\n")) due_.push({now_ns() + delay_ns_, fd});
  }

  void answer(int fd) {
    const auto found = connections_.find(fd);
    if (found == connections_.end()) return;
    Connection& connection = found->second;
    const size_t range = connection.asked.find("Range: bytes=");
    uint64_t first = 0;
    uint64_t last = object_bytes_ - 1;
    if (range != std::string::npos) {
      first = number_at(connection.asked, range + 13);
      const size_t dash = connection.asked.find('-', range + 13);
      last = std::min(last, number_at(connection.asked, dash + 1));
    }
    connection.asked.clear();
    connection.body_left = last - first + 1;
    connection.head = fmt::format(
        "HTTP/1.1 {}\r\nETag: \"0\"\r\nContent-Length: {}\r\n{}\r\n",
        range == std::string::npos ? "200 OK" : "206 Partial Content", connection.body_left,
        range == std::string::npos
            ? ""
            : fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, last, object_bytes_));
    // A short answer leaves in one segment with its head.
    const uint64_t along = std::min<uint64_t>(connection.body_left, 64 << 10);
    connection.head.append(zeros_, 0, along);
    connection.body_left -= along;
    send_more(fd);
  }

  void send_more(int fd) {
    const auto found = connections_.find(fd);
    if (found == connections_.end()) return;
    Connection& connection = found->second;
    while (!connection.head.empty() || connection.body_left > 0) {
      const bool is_head = !connection.head.empty();
      const size_t bytes = is_head ? connection.head.size()
                                   : std::min<uint64_t>(zeros_.size(), connection.body_left);
      const ssize_t sent =
          ::send(fd, is_head ? connection.head.data() : zeros_.data(), bytes, MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) return watch(fd, EPOLLOUT, EPOLL_CTL_MOD);
      if (sent < 0) break;  // the client left; its end is seen when reading
      if (is_head) {
        connection.head.erase(0, static_cast<size_t>(sent));
      } else {
        connection.body_left -= static_cast<uint64_t>(sent);
      }
    }
    watch(fd, EPOLLIN, EPOLL_CTL_MOD);
  }

  const int64_t delay_ns_;
  const uint64_t object_bytes_;
  const std::string zeros_;
  int listener_ = -1;
  int poll_ = -1;
  int port_ = 0;
  std::map<int, Connection> connections_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::jthread thread_;
};

DelayServer::DelayServer(int64_t delay_ns, uint64_t object_bytes)
    : impl_(std::make_unique<Impl>(delay_ns, object_bytes)) {}
DelayServer::~DelayServer() = default;

std::string DelayServer::endpoint() const {
  return fmt::format("http://127.0.0.1:{}", impl_->port());
}

}  // namespace forebay::bench
