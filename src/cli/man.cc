#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "cli/help.h"

namespace forebay::cli {
namespace {

constexpr std::string_view kUsage = "usage: ";  // how usage() begins

// A '.' or ''' that starts a line would be a roff request; a bare '-' would become a hyphen.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
      out += c;
    }
  }
  return out;
}

std::string roff_flag(const Flag& flag) {
  std::string text = fmt::format(".TP\n.B {}", roff(flag.name));
  if (!flag.value.empty()) text += fmt::format(" \\fI{}\\fR", roff(flag.value));
  text += fmt::format("\n{}", roff(flag.summary));
  if (!flag.fallback.empty()) text += fmt::format(" (default: {})", roff(flag.fallback));
  text += ".\n";
  if (!flag.detail.empty()) text += roff(flag.detail) + "\n";
  if (!flag.choices.empty())
    text += fmt::format("One of {}.\n", roff(fmt::format("{}", fmt::join(flag.choices, ", "))));
  if (flag.repeats) text += "May be repeated.\n";
  return text;
}

std::string roff_command(const Command& command) {
  std::string text = fmt::format(".SS {}\n{}.\n", roff(usage(command).substr(kUsage.size())),
                                 roff(command.summary));
  if (!command.detail.empty()) text += fmt::format(".PP\n{}\n", roff(command.detail));
  for (const Positional& row : command.positionals) {
    text += fmt::format(".TP\n.I {}\n{}.\n", roff(row.name), roff(row.summary));
    if (!row.choices.empty())
      text += fmt::format("One of {}.\n", roff(fmt::format("{}", fmt::join(row.choices, ", "))));
  }
  for (const Flag& flag : command.flags) text += roff_flag(flag);
  if (!command.examples.empty()) text += ".PP\nExamples:\n.nf\n";
  for (const std::string_view example : command.examples)
    text += fmt::format("    {}\n", roff(example));
  if (!command.examples.empty()) text += ".fi\n";
  return text;
}

std::string markdown_flag(const Flag& flag) {
  const std::string head =
      flag.value.empty() ? std::string(flag.name) : fmt::format("{} {}", flag.name, flag.value);
  std::string text = fmt::format("- `{}`: {}", head, flag.summary);
  if (!flag.fallback.empty()) text += fmt::format(" (default `{}`)", flag.fallback);
  text += ".";
  if (!flag.detail.empty()) text += fmt::format(" {}", flag.detail);
  if (!flag.choices.empty()) text += fmt::format(" One of `{}`.", fmt::join(flag.choices, "`, `"));
  if (flag.repeats) text += " May be repeated.";
  return text + "\n";
}

std::string markdown_command(const Command& command) {
  std::string text = fmt::format("\n## forebay {}\n\n{}.", command.name, command.summary);
  if (!command.detail.empty()) text += fmt::format(" {}", command.detail);
  text += fmt::format("\n\n```text\n{}\n```\n", usage(command));
  if (!command.positionals.empty() || !command.flags.empty()) text += "\n";
  for (const Positional& row : command.positionals) {
    text += fmt::format("- `{}`: {}.", row.name, row.summary);
    if (!row.choices.empty()) text += fmt::format(" One of `{}`.", fmt::join(row.choices, "`, `"));
    text += "\n";
  }
  for (const Flag& flag : command.flags) text += markdown_flag(flag);
  if (!command.examples.empty()) text += "\nExamples:\n\n```text\n";
  for (const std::string_view example : command.examples) text += fmt::format("{}\n", example);
  if (!command.examples.empty()) text += "```\n";
  return text;
}

}  // namespace

std::string man_page(std::span<const Command* const> commands, std::string_view version) {
  std::string text = fmt::format(
      ".TH FOREBAY 1 \"\" \"forebay {}\" \"User Commands\"\n"
      ".SH NAME\nforebay \\- measure, feed and plan deep\\-learning I/O\n"
      ".SH SYNOPSIS\n.B forebay\n\\fIcommand\\fR [\\fIoptions\\fR]\n"
      ".SH COMMANDS\n",
      roff(version));
  for (const Command* command : commands) text += roff_command(*command);
  text +=
      ".SH EXIT STATUS\n"
      ".TP\n.B 0\ndone\n.TP\n.B 1\nfailed\n.TP\n.B 2\nbad usage or configuration\n"
      ".TP\n.B 3\nmeasured, but a gate was not met\n"
      ".TP\n.B 130\ninterrupted; the partial result was written\n";
  return text;
}

std::string cli_markdown(std::span<const Command* const> commands) {
  std::string text =
      "# Command line\n\n"
      "Made from the flag tables by `forebay help --document cli`. Exit codes: 0 done, 1 failed,\n"
      "2 bad usage or configuration, 3 measured but a gate was not met, 130 interrupted (the "
      "partial\n"
      "result is written).\n";
  for (const Command* command : commands) text += markdown_command(*command);
  return text;
}

}  // namespace forebay::cli
