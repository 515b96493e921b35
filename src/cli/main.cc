// The program: finds the command, runs it, turns errors into exit codes.
#include <fmt/core.h>

#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/dlio_command.h"
#include "cli/help.h"
#include "cli/version.h"
#include "sys/child_process.h"

namespace forebay::cli {
namespace {

Result<int> run_command(const Command& command, std::span<const char* const> words) {
  const Arguments arguments = FB_TRY(parse(command, words));
  if (arguments.help() == HelpRequest::kNone) return command.run(arguments);
  FB_TRY(print(arguments.help() == HelpRequest::kShort ? short_help(command) : long_help(command)));
  return kExitDone;
}

bool asks_for_help(std::string_view word) {
  return word == "-h" || word == "--help" || word == "help";
}

// "checkpoint" alone, and what asks for help on it or on one of its commands.
Result<int> help_on_group(std::span<const char* const> words) {
  std::vector<const char*> topic{words[0]};
  if (words.size() > 2) topic.insert(topic.end(), words.begin() + 2, words.end());
  if (topic.size() > 1) return run_command(kHelp, topic);
  FB_TRY(print(group_help(commands(), words[0])));
  return words.size() == 1 ? kExitUsage : kExitDone;
}

Result<int> run_words(std::span<const char* const> words) {
  const std::string_view first = words.empty() ? "-h" : words[0];
  if (first == "--version" || first == "-V") {
    FB_TRY(print(fmt::format("forebay {}\n", kVersion)));
    return kExitDone;
  }
  if (first == "-h" || first == "--help") {
    if (words.size() > 1) return run_command(kHelp, words.subspan(1));
    FB_TRY(print(overview(commands(), kStartHere)));
    return words.empty() ? kExitUsage : kExitDone;
  }
  if (!commands_of(commands(), first).empty() && (words.size() == 1 || asks_for_help(words[1])))
    return help_on_group(words);
  const Selection selection = FB_TRY(select_command(commands(), words));
  return run_command(*selection.command, selection.rest);
}

}  // namespace
}  // namespace forebay::cli

int main(int argc, char** argv) {
  forebay::sys::ignore_signals_of_writing();  // a closed pipe is an error that print() reports
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
