// The report: one HTML file that needs nothing else, and opens without a network.
//
// Everything that comes from a recording is data in it, compressed and in base64; no name of a file
// or function ever becomes markup or script. Pure functions; an error of the sink is returned.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "forebay/result.h"
#include "report/timeline.h"
#include "trace/recording.h"

namespace forebay::report {

struct PageInput {
  std::string title = {};    // of the recording or result: its path
  std::string version = {};  // of this program
  // Each may be empty: what `explain --json` prints, and a run's result.json with the other run's.
  std::string explanation = {}, result = {}, result_against = {};
  // Each may be null: events for the timeline, stacks for the flame graph.
  const trace::Recording* recording = nullptr;
  const trace::Recording* against = nullptr;
  std::string against_title = {};
  TimelineOptions timeline = {};
};

// Takes the next piece of the file.
using PageSink = std::function<Status(std::string_view)>;

// kUnsupported when this program was built without the page, with the reason.
Status write_page(const PageInput& input, const PageSink& sink);

}  // namespace forebay::report
