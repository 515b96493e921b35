#include "explain/explanation.h"

#include <numeric>

namespace forebay::explain {

std::string_view part_name(Part part) {
  static constexpr std::array<std::string_view, kParts> kNames{
      "compute", "fetch stall", "prep stall", "sync stall", "copy", "checkpoint", "idle", "other"};
  return kNames[static_cast<size_t>(part)];
}

int64_t Breakdown::total_ns() const {
  return std::accumulate(ns.begin(), ns.end(), int64_t{0});
}

double Breakdown::share(Part part) const {
  const int64_t total = total_ns();
  return total == 0 ? 0 : static_cast<double>((*this)[part]) / static_cast<double>(total);
}

void Breakdown::add(const Breakdown& more) {
  for (size_t i = 0; i < kParts; ++i) ns[i] += more.ns[i];
}

double IoUse::metadata_share() const {
  return total_ns() == 0 ? 0 : static_cast<double>(metadata_ns) / static_cast<double>(total_ns());
}

}  // namespace forebay::explain
