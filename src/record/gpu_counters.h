// The counters of one accelerator in a trace, whoever reads them.
//
// One thread at a time; the sink's writer must outlive it.
#pragma once

#include <cstdint>
#include <string_view>

#include "record/collector.h"
#include "record/usage_counter.h"
#include "sys/gpu_library.h"

namespace forebay::record {

class GpuCounters {
 public:
  GpuCounters(Sink& sink, int index, std::string_view name);
  void write(trace::TraceWriter& writer, int64_t at_ns, const sys::GpuReading& reading);

 private:
  UsageCounter busy_, memory_busy_, used_, power_, energy_, received_, sent_;
};

}  // namespace forebay::record
