// Which recording a command speaks of, and its events.
//
// One thread.
#pragma once

#include <string>
#include <vector>

#include "forebay/result.h"
#include "record/recording_folder.h"
#include "trace/recording.h"

namespace forebay::cli {

// The names of recordings that `forebay record` chooses: forebay-0001, forebay-0002, ...
using record::kRecordingPrefix;

// The newest of them in the working directory; kNotFound says how to make one.
Result<std::string> newest_recording();

struct LoadedRecording {
  std::string path;  // the folder or file it came from
  trace::Recording recording;
  std::vector<std::string> sources;  // what was read and must not be written to
};

// Of a folder with .fbt files, of one such file, or of a trace that another tool made. Damage is
// told on stderr and what could be read is used; kCorruption when that is nothing.
Result<LoadedRecording> load_recording(const std::string& path);
// As above, the newest when `path` is empty.
Result<LoadedRecording> load_recording_or_newest(const std::string& path);

}  // namespace forebay::cli
