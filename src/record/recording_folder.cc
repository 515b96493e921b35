#include "record/recording_folder.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "sys/directory.h"
#include "sys/file.h"
#include "sys/file_space.h"

namespace forebay::record {
namespace {

int64_t highest_number() {
  int64_t highest = 0;
  const auto names = sys::names_in(sys::kCurrentFolder, ".");
  if (!names.ok()) return highest;
  for (const std::string& name : *names) {
    if (!name.starts_with(kRecordingPrefix)) continue;
    const auto number = base::parse_int(std::string_view(name).substr(kRecordingPrefix.size()));
    if (number.ok()) highest = std::max(highest, *number);
  }
  return highest;
}

Error told_what_next(const Error& error) {
  if (sys::is_disk_full(error)) return error;  // whoever asks says more
  return fail(error.code, "{}; name a folder that can be written", error.message);
}

}  // namespace

Result<RecordingFolder> make_recording_folder(const std::string& asked, std::optional<int> rank) {
  RecordingFolder folder;
  folder.path = asked;
  if (asked.empty()) {
    for (int64_t number = highest_number() + 1; !folder.is_new; ++number) {
      folder.path = fmt::format("{}{:04}", kRecordingPrefix, number);
      const Result<bool> made = sys::make_new_folder(folder.path);
      if (!made.ok()) return told_what_next(made.error());
      folder.is_new = *made;
    }
  } else if (!sys::path_exists(asked)) {
    if (const Status made = sys::make_folders(sys::kCurrentFolder, asked); !made.ok())
      return told_what_next(made.error());
    folder.is_new = true;
  } else if (!sys::file_status(sys::kCurrentFolder, asked).value_or({}).is_folder) {
    return fail(ErrorCode::kInvalidArgument, "{}: is no folder; name one for the recording", asked);
  }
  folder.trace_path = folder.path + (rank ? fmt::format("/trace-{}.fbt", *rank) : "/trace.fbt");
  if (sys::path_exists(folder.trace_path))
    return fail(ErrorCode::kInvalidArgument, "{} holds a recording already; choose another folder",
                folder.path);
  return folder;
}

}  // namespace forebay::record
