#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace forebay::cli {
namespace {

constexpr size_t kColumns = 80;
constexpr std::string_view kHelpSummary = "this list; --help explains";

// Breaks at spaces so that no line is longer than kColumns; the first line starts at column
// `start`, the others at `indent`.
std::string wrap(std::string_view text, size_t start, size_t indent) {
  std::string out;
  size_t column = start;
  bool is_first = true;
  for (const std::string_view word : base::split(text, ' ')) {
    if (!is_first && column + 1 + word.size() > kColumns) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    is_first = false;
  }
  return out;
}

std::string flag_head(const Flag& flag) {
  return flag.value.empty() ? std::string(flag.name) : fmt::format("{} {}", flag.name, flag.value);
}

// "accelerators to emulate [4]"
std::string summary_with_fallback(const Flag& flag) {
  if (flag.fallback.empty()) return std::string(flag.summary);
  return fmt::format("{} [{}]", flag.summary, flag.fallback);
}

struct Row {
  std::string head;
  std::string text;
  std::string detail;
};

std::vector<Row> rows_of(const Command& command) {
  std::vector<Row> rows;
  for (const Positional& positional : command.positionals) {
    rows.push_back({std::string(positional.name), std::string(positional.summary),
                    positional.choices.empty()
                        ? ""
                        : fmt::format("One of {}.", fmt::join(positional.choices, ", "))});
  }
  for (const Flag& flag : command.flags) {
    std::string detail(flag.detail);
    if (!flag.choices.empty())
      detail +=
          fmt::format("{}One of {}.", detail.empty() ? "" : " ", fmt::join(flag.choices, ", "));
    if (flag.repeats) detail += detail.empty() ? "May be repeated." : " May be repeated.";
    rows.push_back({flag_head(flag), summary_with_fallback(flag), detail});
  }
  rows.push_back({"-h, --help", std::string(kHelpSummary), ""});
  return rows;
}

std::string head_lines(const Command& command) {
  return fmt::format("forebay {}: {}\n{}\n", command.name, command.summary, usage(command));
}

}  // namespace

std::string usage(const Command& command) {
  std::string text = fmt::format("usage: forebay {}", command.name);
  for (const Positional& positional : command.positionals) {
    const std::string name = fmt::format("{}{}", positional.name, positional.repeats ? "..." : "");
    if (positional.verbatim && !command.flags.empty()) text += " [options]";
    text += positional.required ? " " + name : fmt::format(" [{}]", name);
  }
  const bool has_verbatim = !command.positionals.empty() && command.positionals.back().verbatim;
  if (!has_verbatim && !command.flags.empty()) text += " [options]";
  return text;
}

std::string short_help(const Command& command) {
  std::string text = head_lines(command) + "\n";
  const std::vector<Row> rows = rows_of(command);
  size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.head.size());
  width = std::min<size_t>(width, 28);
  for (const Row& row : rows) {
    const size_t indent = width + 4;
    const bool fits = row.head.size() <= width;
    text += fmt::format("  {:<{}}", row.head, width);
    text += fits ? "  " : "\n" + std::string(indent, ' ');
    text += wrap(row.text, indent, indent) + "\n";
  }
  return text;
}

std::string long_help(const Command& command) {
  std::string text = head_lines(command);
  if (!command.detail.empty()) text += "\n" + wrap(command.detail, 0, 0) + "\n";
  for (const Row& row : rows_of(command)) {
    text += fmt::format("\n  {}\n      {}\n", row.head, wrap(row.text, 6, 6));
    if (!row.detail.empty()) text += fmt::format("      {}\n", wrap(row.detail, 6, 6));
  }
  if (!command.examples.empty()) text += "\nexamples\n";
  for (const std::string_view example : command.examples) text += fmt::format("  {}\n", example);
  return text;
}

std::string group_help(std::span<const Command* const> commands, std::string_view first) {
  const std::vector<const Command*> own = commands_of(commands, first);
  size_t width = 0;
  for (const Command* command : own) width = std::max(width, command->name.size());
  std::string text = fmt::format("usage: forebay {} <command> [options]\n\n", first);
  for (const Command* command : own)
    text += fmt::format("  {:<{}}  {}\n", command->name, width, command->summary);
  return text + fmt::format("\n'forebay {} <command> -h' for options.\n", first);
}

std::string overview(std::span<const Command* const> commands, std::string_view start) {
  size_t name_width = 0, group_width = 0, summary_width = 0;
  std::vector<std::string_view> groups;
  for (const Command* command : commands) {
    name_width = std::max(name_width, command->name.size());
    group_width = std::max(group_width, command->group.size());
    summary_width = std::max(summary_width, command->summary.size());
    if (std::find(groups.begin(), groups.end(), command->group) == groups.end())
      groups.push_back(command->group);
  }
  // Two commands to a line where that fits the screen.
  const bool fits_two = group_width + 2 * (name_width + summary_width + 4) <= kColumns;
  std::string text =
      "forebay: measure, feed and plan deep-learning I/O\n"
      "usage:   forebay <command> [options]\n";
  for (const std::string_view group : groups) {
    std::string line = fmt::format("{:<{}}", group, group_width);
    size_t on_line = 0;
    for (const Command* command : commands) {
      if (command->group != group) continue;
      if (on_line == (fits_two ? 2u : 1u)) {
        text += fmt::format("{}\n", line);
        line = std::string(group_width, ' ');
        on_line = 0;
      }
      const bool pads = fits_two && on_line == 0;
      line += fmt::format("  {:<{}}  {:<{}}", command->name, name_width, command->summary,
                          pads ? summary_width : 0);
      ++on_line;
    }
    const size_t end = line.find_last_not_of(' ');
    text += fmt::format("{}\n", line.substr(0, end + 1));
  }
  text += "\n'forebay <command> -h' for options, 'forebay help KEY' for a workload key.\n";
  if (!start.empty()) text += fmt::format("Start: {}\n", start);
  return text;
}

}  // namespace forebay::cli
