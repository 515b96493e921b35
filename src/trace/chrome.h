// Writes a recording as Chrome trace JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing
// open.
#pragma once

#include <functional>
#include <string_view>

#include "forebay/result.h"
#include "trace/recorder.h"

namespace forebay::trace {

// Takes the next piece of text; an error ends the writing and is returned.
using TextSink = std::function<Status(std::string_view)>;

// Streams the events in pieces of about 64 KiB. Times are microseconds with three decimals; groups
// become processes, tracks threads, spans "X" and counters "C" events. The number of dropped events
// is in otherData.
Status write_chrome_json(const Recorder& recorder, const TextSink& sink);

}  // namespace forebay::trace
