// The backends, one constant each. To add one: its file, a line here and one in builtin.cc.
#pragma once

#include "record/collector.h"

namespace forebay::record {

extern const Backend kEnergyRapl;
extern const Backend kGpuNvml;
extern const Backend kGpuSmi;
extern const Backend kIoInterposer;
extern const Backend kMarks;
extern const Backend kNvtx;
extern const Backend kProc;
extern const Backend kSystem;

}  // namespace forebay::record
