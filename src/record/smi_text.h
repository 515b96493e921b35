// A line that nvidia-smi prints for --query-gpu=kSmiQuery --format=csv,noheader,nounits.
//
// Pure functions. Foreign text: what is not such a line gives nothing; "[N/A]" is no value.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sys/gpu_library.h"

namespace forebay::record {

inline constexpr std::string_view kSmiQuery =
    "index,name,utilization.gpu,utilization.memory,memory.used,power.draw";

struct SmiLine {
  int index = 0;
  std::string name;
  sys::GpuReading reading;
};
std::optional<SmiLine> parse_smi_line(std::string_view line);

}  // namespace forebay::record
