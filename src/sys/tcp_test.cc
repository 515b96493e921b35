// Connections on the loopback address: bytes arrive in order, ends are told apart from silence.
#include "sys/tcp.h"

#include <gtest/gtest.h>

#include <string>

namespace forebay::sys {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

struct Pair {
  ScopedFd one, other;
};

Pair connect_pair() {
  const ScopedFd listener = listen_tcp("127.0.0.1", 0).take();
  const int port = port_of(listener).take();
  Pair pair;
  pair.one = connect_tcp("127.0.0.1", port, 10 * kSecond).take();
  pair.other = std::move(*accept_tcp(listener, 10 * kSecond).take());
  return pair;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Tcp, BytesArriveAndAnEndIsNoSilence) {
  Pair pair = connect_pair();
  std::byte buffer[16];
  EXPECT_EQ(receive_some(pair.other, buffer).take(), std::optional<size_t>(0)) << "silence";
  EXPECT_EQ(send_some(pair.one, bytes_of("hello")).take(), 5u);
  ASSERT_TRUE(wait_readable(pair.other, 10 * kSecond));
  EXPECT_EQ(receive_some(pair.other, buffer).take(), std::optional<size_t>(5));
  pair.one.reset();
  ASSERT_TRUE(wait_readable(pair.other, 10 * kSecond));
  EXPECT_EQ(receive_some(pair.other, buffer).take(), std::nullopt);
}

TEST(Tcp, NeverSendsMoreThanFits) {
  Pair pair = connect_pair();
  const std::string much(16 << 20, 'x');
  size_t sent = 0;
  while (const size_t more = send_some(pair.one, bytes_of(much)).take()) sent += more;
  EXPECT_GT(sent, 0u);
  EXPECT_FALSE(wait_writable(pair.one, 0));
}

TEST(Tcp, TakenPortsAndSilentOnesAreErrors) {
  const ScopedFd listener = listen_tcp("localhost", 0).take();
  const int port = port_of(listener).take();
  EXPECT_EQ(listen_tcp("localhost", port).error().code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(accept_tcp(listener, 0).take());
  // A port that is bound and not listened at is one that nobody else can be given.
  const ScopedFd bound = connect_tcp("localhost", port, 10 * kSecond).take();
  EXPECT_EQ(connect_tcp("localhost", port_of(bound).take(), kSecond).error().code, ErrorCode::kIo);
  EXPECT_EQ(connect_tcp("no.such.host.invalid", 1, kSecond).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace forebay::sys
