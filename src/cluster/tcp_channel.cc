#include "cluster/tcp_channel.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sys/tcp.h"

namespace forebay::cluster {
namespace {

using sys::ScopedFd;

constexpr double kSecond = 1e9;
// Who connects says these, his rank and the key of the meeting; process 0 answers with kWelcome, or
// ends the connection; who is still there then says kStay.
constexpr std::string_view kHello = "forebay ranks 1\n", kWelcome = "forebay: here\n",
                           kStay = "forebay: in\n";
constexpr size_t kHelloMax = 4096;
constexpr int64_t kHelloNs = 2'000'000'000;  // for a hello: it comes with the connection
constexpr int64_t kStayNs = 30'000'000'000;  // from one that has not given up
constexpr int64_t kConnectNs = 10'000'000'000;
constexpr int64_t kLookNs = 50'000'000, kRetryNs = 100'000'000;
constexpr int64_t kPartNs = 5'000'000'000;  // of an end in order, at most
constexpr size_t kPieceBytes = 64 << 10, kLengthBytes = 8;

int64_t ns_of(double seconds) {
  return static_cast<int64_t>(seconds * kSecond);
}

// Messages over one connection: eight bytes of length, little endian, then so many. Length 0 says
// that the sender is alive.
class Line {
 public:
  Line(ScopedFd socket, int64_t now_ns)
      : socket_(std::move(socket)),
        address_(sys::peer_address(socket_)),
        heard_ns_(now_ns),
        sent_ns_(now_ns) {}

  const std::string& address() const { return address_; }
  bool is_open() const { return socket_.is_open(); }
  bool has_unsent() const { return is_open() && sent_ < out_.size(); }
  int64_t heard_ns() const { return heard_ns_; }
  int64_t sent_ns() const { return sent_ns_; }
  void end() { socket_.reset(); }

  void put(std::string_view bytes) {
    const uint64_t length = bytes.size();
    char raw[kLengthBytes];
    for (size_t i = 0; i < kLengthBytes; ++i) raw[i] = static_cast<char>(length >> (8 * i));
    out_.append(raw, kLengthBytes);
    out_ += bytes;
  }

  // What goes at once.
  Status flush(int64_t now_ns) {
    while (sent_ < out_.size()) {
      const size_t more =
          FB_TRY(sys::send_some(socket_, std::as_bytes(std::span(out_).subspan(sent_))));
      if (more == 0) return {};
      sent_ += more;
      sent_ns_ = now_ns;
    }
    out_.clear();
    sent_ = 0;
    return {};
  }

  // Takes what has come, by way of `piece`; has_ended() once the other side has ended the
  // connection.
  Status fill(std::span<std::byte> piece, int64_t now_ns) {
    size_t got = piece.size();
    while (got == piece.size()) {
      const auto more = FB_TRY(sys::receive_some(socket_, piece));
      has_ended_ = !more;
      got = more.value_or(0);
      in_.append(reinterpret_cast<const char*>(piece.data()), got);
      if (got > 0) heard_ns_ = now_ns;
    }
    return {};
  }
  bool has_ended() const { return has_ended_; }

  // Lets the other side take what it was sent: bytes that are left here unread would take it away.
  void part(std::span<std::byte> piece, base::Clock& clock, int64_t end_ns) {
    if (!is_open()) return;
    sys::end_sending(socket_);
    while (!has_ended_ && clock.now_ns() < end_ns) {
      if (!fill(piece, 0).ok()) break;
      if (!has_ended_) sys::wait_readable(socket_, end_ns - clock.now_ns());
    }
    end();
  }

  std::optional<std::string> take() {
    while (in_.size() - taken_ >= kLengthBytes) {
      uint64_t length = 0;
      for (size_t i = 0; i < kLengthBytes; ++i)
        length |= static_cast<uint64_t>(static_cast<unsigned char>(in_[taken_ + i])) << (8 * i);
      if (in_.size() - taken_ - kLengthBytes < length) break;
      std::string message = in_.substr(taken_ + kLengthBytes, length);
      taken_ += kLengthBytes + length;
      if (length > 0) return message;
    }
    in_.erase(0, std::exchange(taken_, 0));
    return std::nullopt;
  }

 private:
  ScopedFd socket_;
  const std::string address_;
  std::string out_, in_;
  size_t sent_ = 0, taken_ = 0;
  bool has_ended_ = false;
  int64_t heard_ns_, sent_ns_;
};

class TcpChannel final : public Channel {
 public:
  // `lines`: by rank; null where there is none.
  TcpChannel(const TcpMeeting& meeting, base::Clock& clock,
             std::vector<std::unique_ptr<Line>> lines)
      : rank_(meeting.rank),
        clock_(clock),
        silence_ns_(ns_of(meeting.silence_seconds)),
        lines_(std::move(lines)) {}
  ~TcpChannel() override { TcpChannel::close(false); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(lines_.size()); }

  Status send(int to, std::string bytes) override {
    Line* const line = lines_[static_cast<size_t>(to)].get();
    if (line == nullptr)
      return fail(ErrorCode::kUnsupported, "rank {} cannot be talked to from here", to);
    if (!line->is_open()) return fail(ErrorCode::kIo, "{} is gone", name_of(to));
    line->put(bytes);
    return note(to, line->flush(clock_.now_ns()));
  }

  Result<std::optional<Message>> receive() override {
    const int64_t now = clock_.now_ns();
    for (int rank = 0; rank < size(); ++rank) {
      Line* const line = lines_[static_cast<size_t>(rank)].get();
      if (line == nullptr) continue;
      // What came before the end counts.
      if (auto message = line->take()) return std::optional<Message>({rank, *std::move(message)});
      if (!line->is_open()) continue;
      FB_TRY(look(rank, *line, now));
      if (auto message = line->take()) return std::optional<Message>({rank, *std::move(message)});
      if (!line->has_ended()) continue;
      line->end();
      return fail(ErrorCode::kIo, "{} is gone: its process has ended, or closed what it shared",
                  name_of(rank));
    }
    return std::optional<Message>();
  }

  bool has_unsent() const override {
    return std::any_of(lines_.begin(), lines_.end(),
                       [](const auto& line) { return line && line->has_unsent(); });
  }

  void close(bool /*in_order*/) override {
    // The answer that another process waits for may still lie here.
    const int64_t end = clock_.now_ns() + kPartNs;
    while (has_unsent() && clock_.now_ns() < end) {
      for (const auto& line : lines_) {
        if (line && line->has_unsent() && !line->flush(clock_.now_ns()).ok()) line->end();
      }
      if (has_unsent()) clock_.sleep_until_ns(clock_.now_ns() + kLookNs, {});
    }
    for (const auto& line : lines_) {
      if (line) line->part(piece_, clock_, end);
    }
  }

 private:
  std::string name_of(int rank) const {
    return fmt::format("rank {} ({})", rank, lines_[static_cast<size_t>(rank)]->address());
  }
  // An error ends the line.
  Status note(int rank, const Status& status) {
    if (status.ok()) return {};
    lines_[static_cast<size_t>(rank)]->end();
    return fail(ErrorCode::kIo, "{} is gone: {}", name_of(rank), status.error().message);
  }

  Status look(int rank, Line& line, int64_t now) {
    if (line.has_ended()) return {};
    FB_TRY(note(rank, line.fill(piece_, now)));
    if (line.has_ended()) return {};
    if (now - line.sent_ns() > silence_ns_ / 8 && !line.has_unsent()) line.put("");
    FB_TRY(note(rank, line.flush(now)));
    if (now - line.heard_ns() < silence_ns_) return {};
    line.end();
    return fail(ErrorCode::kIo,
                "{} has not been heard of for {:.0f} seconds: it is stopped, or "
                "its host is gone",
                name_of(rank), static_cast<double>(silence_ns_) / kSecond);
  }

  const int rank_;
  base::Clock& clock_;
  const int64_t silence_ns_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<std::byte> piece_ = std::vector<std::byte>(kPieceBytes);
};

// --- the meeting ---

std::string hello_of(const TcpMeeting& meeting) {
  return fmt::format("{}{} {} {}\n", kHello, meeting.rank, meeting.size, meeting.key);
}

// Bytes up to and with the end of line number `lines`, within `timeout_ns`; fewer when they do not
// come.
std::string read_lines(const ScopedFd& socket, int lines, base::Clock& clock, int64_t timeout_ns) {
  std::string text;
  const int64_t end = clock.now_ns() + timeout_ns;
  while (text.size() < kHelloMax && std::count(text.begin(), text.end(), '\n') < lines) {
    const int64_t left = end - clock.now_ns();
    if (left <= 0 || !sys::wait_readable(socket, left)) break;
    std::byte byte{};  // no more than the greeting: messages may follow
    const auto got = sys::receive_some(socket, {&byte, 1});
    if (!got.ok() || !*got) break;
    if (**got == 1) text += static_cast<char>(byte);
  }
  return text;
}

Status write_all(const ScopedFd& socket, std::string_view text, int64_t timeout_ns) {
  auto left = std::as_bytes(std::span(text));
  while (!left.empty()) {
    if (!sys::wait_writable(socket, timeout_ns)) return fail(ErrorCode::kIo, "nobody takes it");
    left = left.subspan(FB_TRY(sys::send_some(socket, left)));
  }
  return {};
}

class Host {
 public:
  Host(const TcpMeeting& meeting, base::Clock& clock, const std::stop_token& stop)
      : meeting_(meeting), clock_(clock), stop_(stop), lines_(static_cast<size_t>(meeting.size)) {}

  Result<std::vector<std::unique_ptr<Line>>> run() {
    const ScopedFd listener = FB_TRY(listen());
    const int64_t end = clock_.now_ns() + ns_of(meeting_.join_seconds);
    while (std::count(lines_.begin() + 1, lines_.end(), nullptr) > 0) {
      if (stop_.stop_requested())
        return fail(ErrorCode::kCancelled, "stopped while waiting for the other ranks");
      if (clock_.now_ns() > end) return nobody_came();
      auto guest = FB_TRY(sys::accept_tcp(listener, kLookNs));
      if (guest) greet(*std::move(guest));
    }
    return std::move(lines_);
  }

 private:
  Result<ScopedFd> listen() const {
    std::optional<Error> last;
    for (int i = 0; i < meeting_.ports; ++i) {
      auto listener = sys::listen_tcp(meeting_.host, meeting_.port + i);
      if (listener.ok() || listener.error().code != ErrorCode::kResourceExhausted) return listener;
      last = listener.error();
    }
    return fail(
        ErrorCode::kIo, "the ranks cannot meet: {}{}", last->message,
        meeting_.ports > 1 ? fmt::format(", and so are the {} before", meeting_.ports - 1) : "");
  }

  void greet(ScopedFd socket) {
    const std::string text = read_lines(socket, 2, clock_, kHelloNs);
    for (int rank = 1; rank < meeting_.size; ++rank) {
      TcpMeeting theirs = meeting_;
      theirs.rank = rank;
      if (text != hello_of(theirs)) continue;
      if (!write_all(socket, kWelcome, kHelloNs).ok()) return;
      // One that has given up this connection comes with another.
      if (read_lines(socket, 1, clock_, kStayNs) != kStay) return;
      lines_[static_cast<size_t>(rank)] =
          std::make_unique<Line>(std::move(socket), clock_.now_ns());
      return;
    }
  }

  Error nobody_came() const {
    std::vector<int> missing;
    for (int rank = 1; rank < meeting_.size && missing.size() < 8; ++rank) {
      if (!lines_[static_cast<size_t>(rank)]) missing.push_back(rank);
    }
    return fail(ErrorCode::kIo, "of {} ranks, these did not come within {:.0f} seconds: {}",
                meeting_.size, meeting_.join_seconds, fmt::join(missing, ", "));
  }

  const TcpMeeting& meeting_;
  base::Clock& clock_;
  const std::stop_token& stop_;
  std::vector<std::unique_ptr<Line>> lines_;
};

// Somebody else may listen at a port, or process 0 of another meeting: both do not welcome.
Result<ScopedFd> join_at(const TcpMeeting& meeting, int port, base::Clock& clock) {
  ScopedFd socket = FB_TRY(sys::connect_tcp(meeting.host, port, kConnectNs));
  FB_TRY(write_all(socket, hello_of(meeting), kHelloNs));
  if (read_lines(socket, 1, clock, ns_of(meeting.answer_seconds)) == kWelcome) {
    FB_TRY(write_all(socket, kStay, kHelloNs));
    return socket;
  }
  return fail(ErrorCode::kIo, "{}:{}: who answers there is not rank 0 of this job", meeting.host,
              port);
}

Result<std::vector<std::unique_ptr<Line>>> join(const TcpMeeting& meeting, base::Clock& clock,
                                                const std::stop_token& stop) {
  const int64_t end = clock.now_ns() + ns_of(meeting.join_seconds);
  for (;;) {
    std::optional<Error> why;
    for (int i = 0; i < meeting.ports; ++i) {
      auto socket = join_at(meeting, meeting.port + i, clock);
      if (socket.ok()) {
        std::vector<std::unique_ptr<Line>> lines(static_cast<size_t>(meeting.size));
        lines[0] = std::make_unique<Line>(std::move(socket).take(), clock.now_ns());
        return lines;
      }
      if (!why) why = socket.error();
      if (stop.stop_requested()) break;
    }
    if (clock.now_ns() > end)
      return fail(ErrorCode::kIo, "rank 0 was not found within {:.0f} seconds: {}",
                  meeting.join_seconds, why->message);
    if (!clock.sleep_until_ns(clock.now_ns() + kRetryNs, stop))
      return fail(ErrorCode::kCancelled, "stopped while looking for rank 0");
  }
}

}  // namespace

Result<std::unique_ptr<Channel>> open_tcp_channel(const TcpMeeting& meeting, base::Clock& clock,
                                                  const std::stop_token& stop) {
  if (meeting.size < 1 || meeting.rank < 0 || meeting.rank >= meeting.size)
    return fail(ErrorCode::kInvalidArgument, "rank {} of {}", meeting.rank, meeting.size);
  if (meeting.key.find('\n') != std::string::npos || meeting.key.size() > kHelloMax / 2)
    return fail(ErrorCode::kInvalidArgument, "a key of a meeting is one short line");
  if (meeting.port < 1 || meeting.port + meeting.ports > 65536)
    return fail(ErrorCode::kInvalidArgument, "no port {}", meeting.port);
  auto lines = meeting.rank == 0 ? Host(meeting, clock, stop).run() : join(meeting, clock, stop);
  return std::unique_ptr<Channel>(
      std::make_unique<TcpChannel>(meeting, clock, FB_TRY(std::move(lines))));
}

}  // namespace forebay::cluster
