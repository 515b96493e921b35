// Connections between processes of one job: TCP sockets that never make a caller wait, but where a
// deadline is given.
//
// Functions are safe from any thread, for different sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "forebay/result.h"
#include "sys/file.h"

namespace forebay::sys {

// Listens at `port`: of the loopback address when `host` names that, else of all this machine has.
// 0 = any free port. kResourceExhausted when the port is taken.
Result<ScopedFd> listen_tcp(const std::string& host, int port);
Result<int> port_of(const ScopedFd& socket);

// Somebody who came within `timeout_ns`, or nobody.
Result<std::optional<ScopedFd>> accept_tcp(const ScopedFd& listener, int64_t timeout_ns);

// Tries each address of `host` once; `timeout_ns` is for each. kIo with the cause.
Result<ScopedFd> connect_tcp(const std::string& host, int port, int64_t timeout_ns);

// "10.1.2.3", or "" when it is not connected.
std::string peer_address(const ScopedFd& socket);

// What went at once: bytes, maybe 0. kIo when the connection has ended.
Result<size_t> send_some(const ScopedFd& socket, std::span<const std::byte> bytes);
// The same; nothing = the other side has ended the connection in order.
Result<std::optional<size_t>> receive_some(const ScopedFd& socket, std::span<std::byte> out);
// The other side then receives an end behind what was sent.
void end_sending(const ScopedFd& socket);
// Until bytes can be received or sent; false after `timeout_ns`.
bool wait_readable(const ScopedFd& socket, int64_t timeout_ns);
bool wait_writable(const ScopedFd& socket, int64_t timeout_ns);

}  // namespace forebay::sys
