// Results for people: the head of a run, a line per epoch, and the closing summary.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "emulate/progress.h"
#include "emulate/result.h"

namespace forebay::report {

struct TextStyle {
  bool colour = false;
  int columns = 80;
};

std::string run_head(const emulate::RunResult& result, TextStyle style);
// One save or restore of a run that does nothing else.
std::string checkpoint_line(const emulate::CheckpointRecord& record, TextStyle style);
std::string epoch_line(const emulate::EpochResult& epoch, const emulate::RunResult& result,
                       TextStyle style);
// One line without a line break, at most style.columns wide; `now_ns` is monotonic.
std::string progress_line(const emulate::Progress& progress, int accelerators, int64_t now_ns,
                          TextStyle style);
std::string run_summary(const emulate::RunResult& result, TextStyle style);

}  // namespace forebay::report
