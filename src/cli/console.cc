#include "cli/console.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "sys/launcher.h"
#include "sys/terminal.h"

namespace forebay::cli {
namespace {

constexpr int kStdout = 1;
constexpr int kStderr = 2;
bool progress_is_shown = false;

// A launcher gives its processes terminals of its own, whatever its output goes to.
bool is_own_terminal(int fd) {
  return sys::is_terminal(fd) && !sys::launched_by();
}

report::TextStyle style_of(int fd) {
  const bool is_terminal = is_own_terminal(fd);
  // NO_COLOR and TERM=dumb are what other programs honour.
  const char* term = std::getenv("TERM");
  const bool may_colour =
      std::getenv("NO_COLOR") == nullptr && (term == nullptr || std::string_view(term) != "dumb");
  return {is_terminal && may_colour, sys::terminal_columns(fd)};
}

}  // namespace

int exit_code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return kExitUsage;
    case ErrorCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailed;
  }
}

Status print(std::string_view text) {
  show_progress("");
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return {};
  if (errno == EPIPE) return Error{ErrorCode::kIo, std::string(kReaderLeft)};
  return fail(ErrorCode::kIo, "cannot write to standard output");
}

void talk(std::string_view text) {
  show_progress("");
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void show_progress(std::string_view line) {
  if (!is_own_terminal(kStderr) || (line.empty() && !progress_is_shown)) return;
  std::fwrite("\r\033[K", 1, 4, stderr);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  progress_is_shown = !line.empty();
}

report::TextStyle stdout_style() {
  return style_of(kStdout);
}
report::TextStyle stderr_style() {
  return style_of(kStderr);
}

}  // namespace forebay::cli
