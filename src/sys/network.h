// Bytes that the network interfaces of this machine (or network namespace) carried.
//
// Safe to call from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace forebay::sys {

struct NetworkBytes {
  uint64_t received = 0, sent = 0;
};

// Since the interfaces came up, all but loopback. Interfaces stacked on others (bridges, bonds,
// VLANs) are left out, so that a byte counts once. Nothing when the kernel does not tell.
std::optional<NetworkBytes> network_bytes();

// The sum over the lines of `text`, in the form of /proc/net/dev; `counts` says which interfaces.
NetworkBytes sum_network_bytes(std::string_view text, bool (*counts)(std::string_view interface));

}  // namespace forebay::sys
