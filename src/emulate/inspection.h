// Describes a file or a data set nobody has told us about: format, samples, sizes, problems.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "emulate/findings.h"
#include "forebay/result.h"

namespace forebay::emulate {

struct InspectionOptions {
  std::string format;             // "" = by content
  uint64_t samples_per_file = 0;  // 0 = ask each file
  uint64_t record_bytes = 0;      // raw
  bool check_all = false;         // read and decode every sample
  int threads = 0;                // 0 = CPUs of this process
};

// `path` is a file or a folder on this machine.
Result<Inspection> inspect(const std::string& path, const InspectionOptions& options,
                           const std::function<void(uint64_t done, uint64_t total)>& progress,
                           std::stop_token stop);

}  // namespace forebay::emulate
