// The program: finds the command, runs it, turns errors into exit codes.
#include <fmt/core.h>

#include <csignal>
#include <span>
#include <string_view>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/dlio_command.h"
#include "cli/help.h"
#include "cli/version.h"

namespace forebay::cli {
namespace {

Result<int> run_words(std::span<const char* const> words) {
  const std::string_view first = words.empty() ? "-h" : words[0];
  if (first == "--version" || first == "-V") {
    FB_TRY(print(fmt::format("forebay {}\n", kVersion)));
    return kExitDone;
  }
  if (first == "-h" || first == "--help") {
    FB_TRY(print(overview(commands(), kStartHere)));
    return words.empty() ? kExitUsage : kExitDone;
  }
  const Selection selection = FB_TRY(select_command(commands(), words));
  const Arguments arguments = FB_TRY(parse(*selection.command, selection.rest));
  if (arguments.help() != HelpRequest::kNone) {
    FB_TRY(print(arguments.help() == HelpRequest::kShort ? short_help(*selection.command)
                                                         : long_help(*selection.command)));
    return kExitDone;
  }
  return selection.command->run(arguments);
}

}  // namespace
}  // namespace forebay::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error that print() reports
  const std::span<const char* const> words(argv + 1, static_cast<size_t>(argc > 0 ? argc - 1 : 0));
  // Links of other names to this program stand for DLIO's programs.
  std::string_view name = argc > 0 ? argv[0] : "forebay";
  name.remove_prefix(name.rfind('/') + 1);
  const bool is_query = name == "dlio_benchmark_query";
  const bool is_benchmark = name == "dlio_benchmark";
  if (!is_query && !is_benchmark) name = "forebay";
  const forebay::Result<int> code = is_query       ? forebay::cli::dlio_benchmark_query(words)
                                    : is_benchmark ? forebay::cli::dlio_benchmark(words)
                                                   : forebay::cli::run_words(words);
  if (code.ok()) return *code;
  if (code.error().message == forebay::cli::kReaderLeft) return forebay::cli::kExitReaderLeft;
  forebay::cli::talk(fmt::format("{}: {}\n", name, code.error().message));
  return forebay::cli::exit_code_of(code.error());
}
