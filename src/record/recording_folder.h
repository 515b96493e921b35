// The folder of a new recording.
//
// Functions may be called from any thread; sessions that start together get folders of their own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "forebay/result.h"

namespace forebay::record {

// Of recordings without a name of their own: forebay-0001, forebay-0002, ...
inline constexpr std::string_view kRecordingPrefix = "forebay-";

struct RecordingFolder {
  std::string path;        // as the user would type it
  std::string trace_path;  // the file to write
  bool is_new = false;     // made here
};

// `asked`, or ./forebay-NNNN with the lowest number above all that are there. `rank` is in the
// file's name, so that the ranks of one job may share a folder.
Result<RecordingFolder> make_recording_folder(const std::string& asked, std::optional<int> rank);

}  // namespace forebay::record
