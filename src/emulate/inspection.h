// Describes a file or a data set nobody has told us about: format, samples, sizes, problems.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/index.h"
#include "forebay/result.h"
#include "storage/store.h"
#include "trace/histogram.h"

namespace forebay::emulate {

struct InspectionOptions {
  std::string format;              // "" = by content
  uint64_t samples_per_file = 0;   // 0 = ask each file
  uint64_t record_bytes = 0;       // raw
  bool check_all = false;          // read and decode every sample
  int threads = 0;                 // 0 = CPUs of this process
};

struct Inspection {
  std::string path;
  std::string format;
  dataset::IndexSummary summary;
  trace::Histogram file_bytes;
  std::string first_sample;        // "uint8 12107 x 12107 x 1", "" when it could not be decoded
  bool is_checked = false;         // every sample was decoded
  uint64_t checked_samples = 0, checked_bytes = 0;
  double check_seconds = 0;
  uint64_t bad_count = 0;
  std::vector<std::string> bad;    // the first 100, with file and cause
};

// `path` is a file or a folder on this machine.
Result<Inspection> inspect(const std::string& path, const InspectionOptions& options,
                           const std::function<void(uint64_t done, uint64_t total)>& progress,
                           std::stop_token stop);

}  // namespace forebay::emulate
