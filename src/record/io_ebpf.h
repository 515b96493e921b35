// Collector io/ebpf: system calls, waits, faults, disks and io_uring of a process tree, seen by a
// program in the kernel (io.bpf.c). Needs CAP_BPF and CAP_PERFMON, or root.
#pragma once

#include "record/collector.h"

namespace forebay::record {

extern const Backend kIoEbpf;

}  // namespace forebay::record
