// Every backend of every collector. Of one collector the first that can run here is used.
#include "record/builtin.h"

#include <algorithm>
#include <array>

#include "record/cpu_perf.h"
#include "record/io_ebpf.h"
#include "record/session.h"

namespace forebay::record {

std::span<const Backend> backends() {
  static const std::array all{
      kIoEbpf,  kIoInterposer, kCpuPerf,    kProc,  kSystem,
      kGpuNvml, kGpuSmi,       kEnergyRapl, kMarks, kNvtx,
  };
  return all;
}

std::vector<std::string_view> collector_names() {
  std::vector<std::string_view> names;
  for (const Backend& backend : backends())
    if (std::find(names.begin(), names.end(), backend.collector) == names.end())
      names.push_back(backend.collector);
  return names;
}

std::vector<Choice> probe_backends() {
  std::vector<Choice> choices;
  for (const Backend& backend : backends())
    choices.push_back({.backend = &backend, .availability = backend.probe()});
  return choices;
}

}  // namespace forebay::record
