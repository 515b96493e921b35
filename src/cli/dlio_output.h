// Where a DLIO run's lines go: "[OUTPUT] 2026-05-31T14:03:59.120004 text" to stdout and a log file.
//
// One thread.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

#include "forebay/result.h"

namespace forebay::cli {

// In order of weight; a line is written when it weighs at least as much as the log's level. Nothing
// weighs as much as kSilent.
enum class DlioLevel { kDebug, kInfo, kWarning, kOutput, kError, kSilent };

// DLIO_LOG_LEVEL=error|warning|info|debug; without it warning. kInvalidArgument for another word.
Result<DlioLevel> dlio_log_level();

class DlioOutput {
 public:
  explicit DlioOutput(DlioLevel level) : level_(level) {}

  // From now on lines also go to `path`, which is begun anew.
  Status open_file(const std::string& path);

  bool shows(DlioLevel level) const { return level >= level_; }
  void line(DlioLevel level, std::string_view text);  // of now
  void line(DlioLevel level, double unix_seconds, std::string_view text);
  void block(DlioLevel level, std::string_view lines);  // as they are

  // kIo once stdout or the file has refused anything.
  Status status() const { return status_; }

 private:
  const DlioLevel level_;
  std::string path_;
  std::ofstream file_;
  Status status_;
};

}  // namespace forebay::cli
