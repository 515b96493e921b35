#include "cli/recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/console.h"
#include "cli/import_text.h"
#include "cli/version.h"
#include "ingest/import.h"
#include "sys/environment.h"
#include "sys/process.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".fbt";

bool is_recording_name(const std::string& name) {
  if (!name.starts_with(kRecordingPrefix)) return false;
  const std::string_view number = std::string_view(name).substr(kRecordingPrefix.size());
  return number.size() >= 4 &&
         std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The trace files of a folder, by name.
std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kSuffix)) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Tells what was lost; that nothing is left is an error.
Status check_damage(const trace::Recording& recording) {
  for (const trace::RecordingFile& file : recording.files()) {
    if (file.damage && recording.empty()) return *file.damage;
    if (file.damage) talk(fmt::format("forebay: {}\n", file.damage->message));
  }
  return {};
}

// A folder that goes with everything in it.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make() {
    std::error_code error;
    const fs::path base = sys::environment("TMPDIR").value_or("/tmp");
    for (int number = 0; number < 1000; ++number) {
      const fs::path path = base / fmt::format("forebay-import-{}-{}", sys::process_id(), number);
      if (fs::create_directory(path, error)) return ScratchFolder(path.string());
      if (error) break;
    }
    return fail(ErrorCode::kIo, "{}: no folder can be made for the imported trace: {}",
                base.string(), error.message());
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Result<LoadedRecording> load_foreign(const std::string& path) {
  const ScratchFolder scratch = FB_TRY(ScratchFolder::make());
  const std::vector<std::string> sources{path};
  const ingest::Imported imported =
      FB_TRY(ingest::import(sources, {.folder = scratch.path(), .version = kVersion}));
  // Told, so that no total looks complete when it is not.
  talk(losses_text(imported));
  std::vector<std::string> files;
  for (const ingest::ImportedFile& file : imported.files) files.push_back(file.trace);
  std::vector<std::string> read{path};
  for (const ingest::ImportedFile& file : imported.files) read.push_back(file.source);
  return LoadedRecording{path, FB_TRY(trace::Recording::load(files)), std::move(read)};
}

}  // namespace

Result<std::string> newest_recording() {
  std::string newest;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(".", error)) {
    const std::string name = entry.path().filename().string();
    // Longer numbers are larger; of one length the order of text is that of numbers.
    if (!entry.is_directory(error) || !is_recording_name(name)) continue;
    if (std::pair(name.size(), name) > std::pair(newest.size(), newest)) newest = name;
  }
  if (newest.empty()) {
    return fail(ErrorCode::kNotFound,
                "no recording here; make one: forebay record -- COMMAND, or name a trace file");
  }
  return newest;
}

Result<LoadedRecording> load_recording(const std::string& path) {
  std::error_code error;
  std::vector<std::string> files{path};
  if (fs::is_directory(path, error)) {
    files = files_of(path);
    if (files.empty()) {
      auto foreign = load_foreign(path);  // of one tool as a whole, or one trace a rank
      if (foreign.ok() || foreign.error().code != ErrorCode::kUnsupported) return foreign;
      return fail(ErrorCode::kUnsupported,
                  "{}: no trace file (*{}) in this folder, and none of another tool that is known",
                  path, kSuffix);
    }
  } else if (fs::exists(path, error) && !path.ends_with(kSuffix)) {
    return load_foreign(path);
  }
  LoadedRecording loaded{path, FB_TRY(trace::Recording::load(files)), files};
  FB_TRY(check_damage(loaded.recording));
  return loaded;
}

Result<LoadedRecording> load_recording_or_newest(const std::string& path) {
  return load_recording(path.empty() ? FB_TRY(newest_recording()) : path);
}

}  // namespace forebay::cli
