#include "sys/network.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace forebay::sys {
namespace {

// Stacked interfaces name those below them as lower_*; so do veth pairs across namespaces, which
// carry the bytes themselves and show their partner only by its number.
bool is_of_its_own(std::string_view interface) {
  if (interface == "lo") return false;
  const std::string folder = "/sys/class/net/" + std::string(interface);
  for (const char* mark : {"/bridge", "/bonding"})
    if (access((folder + mark).c_str(), F_OK) == 0) return false;
  return access(("/proc/net/vlan/" + std::string(interface)).c_str(), F_OK) != 0;
}

}  // namespace

NetworkBytes sum_network_bytes(std::string_view text, bool (*counts)(std::string_view interface)) {
  NetworkBytes sum;
  std::istringstream lines{std::string(text)};
  std::string line;
  while (std::getline(lines, line)) {
    const size_t colon = line.find(':');
    const size_t first = line.find_first_not_of(' ');
    if (colon == std::string::npos || first >= colon) continue;
    if (!counts(std::string_view(line).substr(first, colon - first))) continue;
    std::istringstream values(line.substr(colon + 1));
    constexpr int kSentColumn = 8;
    uint64_t value = 0;
    for (int column = 0; column <= kSentColumn && values >> value; ++column) {
      if (column == 0) sum.received += value;
      if (column == kSentColumn) sum.sent += value;
    }
  }
  return sum;
}

std::optional<NetworkBytes> network_bytes() {
  std::ifstream file("/proc/self/net/dev");
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return sum_network_bytes(text.str(), is_of_its_own);
}

}  // namespace forebay::sys
