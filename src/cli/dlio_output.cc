#include "cli/dlio_output.h"

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "cli/console.h"
#include "report/dlio_log.h"
#include "sys/file.h"
#include "sys/process.h"

namespace forebay::cli {
namespace {

std::string_view level_name(DlioLevel level) {
  static constexpr std::array<std::string_view, 6> kNames{"DEBUG",  "INFO",  "WARNING",
                                                          "OUTPUT", "ERROR", "SILENT"};
  return kNames[static_cast<size_t>(level)];
}

}  // namespace

Result<DlioLevel> dlio_log_level() {
  const char* set = std::getenv("DLIO_LOG_LEVEL");
  const std::string word = base::to_lower(set == nullptr ? "warning" : set);
  if (word == "error") return DlioLevel::kError;
  if (word == "warning" || word.empty()) return DlioLevel::kWarning;
  if (word == "info") return DlioLevel::kInfo;
  if (word == "debug") return DlioLevel::kDebug;
  return fail(ErrorCode::kInvalidArgument,
              "DLIO_LOG_LEVEL is one of error, warning, info, debug, not '{}'", word);
}

Status DlioOutput::open_file(const std::string& path) {
  path_ = path;
  file_.open(path, std::ios::binary | std::ios::trunc);
  if (!file_) return sys::error_from_errno(errno, path);
  return {};
}

void DlioOutput::line(DlioLevel level, std::string_view text) {
  line(level, sys::unix_seconds(), text);
}

void DlioOutput::line(DlioLevel level, double unix_seconds, std::string_view text) {
  block(level,
        fmt::format("[{}] {} {}\n", level_name(level), report::dlio_time(unix_seconds), text));
}

void DlioOutput::block(DlioLevel level, std::string_view lines) {
  if (!shows(level)) return;
  Status printed = print(lines);
  if (status_.ok() && !printed.ok()) status_ = std::move(printed);
  if (!file_.is_open()) return;
  file_ << lines << std::flush;
  if (status_.ok() && !file_) status_ = fail(ErrorCode::kIo, "{}: cannot be written", path_);
}

}  // namespace forebay::cli
