// NVIDIA's management library, loaded when it is there: what each accelerator does.
//
// One thread at a time. Nothing is linked: without the library open() says so.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "forebay/result.h"

namespace forebay::sys {

struct GpuReading {
  std::optional<double> busy_share, memory_busy_share;  // of the time, 0..1
  std::optional<uint64_t> used_bytes;
  std::optional<double> power_watts;
  std::optional<double> energy_joules;  // since the driver was loaded
  std::optional<double> pcie_received_bytes_per_second, pcie_sent_bytes_per_second;
};

class GpuLibrary {
 public:
  // kUnsupported: no library, no driver, or no accelerator, with what it said. `file`: the library,
  // for tests; empty: libnvidia-ml.so.1.
  static Result<std::unique_ptr<GpuLibrary>> open(const std::string& file = {});
  virtual ~GpuLibrary() = default;

  struct Device {
    std::string name;  // "NVIDIA H100 80GB HBM3", of a slice "... MIG 1g.10gb"
    uint64_t memory_bytes = 0;
    bool is_mig_slice = false;
  };
  virtual const std::vector<Device>& devices() const = 0;
  virtual GpuReading read(size_t device) = 0;
};

}  // namespace forebay::sys
