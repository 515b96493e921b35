// One power domain of /sys/class/powercap: energy since the first reading, across the wrap-around
// of its counter.
//
// One thread at a time. Readings must come more often than the counter wraps: tens of seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sys/proc_file.h"

namespace forebay::record {

class EnergyDomain {
 public:
  explicit EnergyDomain(const std::string& folder);

  const std::string& name() const { return name_; }  // "package-0"
  // Nothing when it cannot be read.
  std::optional<double> joules();

 private:
  std::string name_;
  sys::ProcFile file_;
  uint64_t range_microjoules_ = 0;  // the counter's, 0 not known
  std::optional<uint64_t> last_;
  uint64_t sum_microjoules_ = 0;
};

}  // namespace forebay::record
