#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/help.h"

namespace forebay::cli {
namespace {

// For single quotes in bash, zsh and fish.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

std::string_view first_word(std::string_view name) {
  return name.substr(0, name.find(' '));
}

std::string_view second_word(std::string_view name) {
  const size_t space = name.find(' ');
  return space == std::string_view::npos ? std::string_view() : name.substr(space + 1);
}

std::vector<std::string_view> first_words(std::span<const Command* const> commands) {
  std::vector<std::string_view> words;
  for (const Command* command : commands) words.push_back(first_word(command->name));
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

std::vector<std::string_view> second_words(std::span<const Command* const> commands,
                                           std::string_view first) {
  std::vector<std::string_view> words;
  for (const Command* command : commands)
    if (first_word(command->name) == first && !second_word(command->name).empty())
      words.push_back(second_word(command->name));
  return words;
}

std::vector<std::string_view> flag_names(const Command& command) {
  std::vector<std::string_view> names;
  for (const Flag& flag : command.flags) names.push_back(flag.name);
  names.push_back("--help");
  return names;
}

std::vector<std::string_view> positional_choices(const Command& command) {
  std::vector<std::string_view> words;
  for (const Positional& row : command.positionals)
    words.insert(words.end(), row.choices.begin(), row.choices.end());
  return words;
}

// One case of the inner switch: the words that may follow, by command and by the word before.
std::string bash_command(const Command& command) {
  std::string text = fmt::format("    {})\n      case \"$previous\" in\n", quoted(command.name));
  for (const Flag& flag : command.flags) {
    if (flag.value.empty()) continue;
    if (flag.choices.empty())
      text +=
          fmt::format("        {}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", flag.name);
    else
      text += fmt::format("        {}) COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;\n",
                          flag.name, fmt::join(flag.choices, " "));
  }
  text +=
      fmt::format("      esac\n      flags='{}' words='{}' ;;\n",
                  fmt::join(flag_names(command), " "), fmt::join(positional_choices(command), " "));
  return text;
}

std::string bash_completion(std::span<const Command* const> commands) {
  std::string text =
      "# bash completion for forebay\n"
      "_forebay() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  local command=\"${COMP_WORDS[1]}\" flags='' words=''\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  text += fmt::format("    COMPREPLY=($(compgen -W '{}' -- \"$word\")); return\n  fi\n",
                      fmt::join(first_words(commands), " "));
  text += "  case \"$command\" in\n";
  for (const std::string_view first : first_words(commands)) {
    const std::vector<std::string_view> seconds = second_words(commands, first);
    if (seconds.empty()) continue;
    text += fmt::format(
        "    {})\n"
        "      if [ \"$COMP_CWORD\" -eq 2 ]; then\n"
        "        COMPREPLY=($(compgen -W '{}' -- \"$word\")); return\n"
        "      fi\n"
        "      command=\"$command ${{COMP_WORDS[2]}}\" ;;\n",
        first, fmt::join(seconds, " "));
  }
  text += "  esac\n  case \"$command\" in\n";
  for (const Command* command : commands) text += bash_command(*command);
  text +=
      "  esac\n"
      "  case \"$word\" in\n"
      "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
      "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -- \"$word\")) ;;\n"
      "  esac\n"
      "}\n"
      "complete -o filenames -F _forebay forebay\n";
  return text;
}

// '[' ']' and ':' have a meaning inside a specification of _arguments.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(std::span<const std::string_view> choices) {
  return choices.empty() ? "_files" : fmt::format("({})", fmt::join(choices, " "));
}

std::string zsh_command(const Command& command) {
  std::string text = fmt::format("    {})\n      _arguments -s", quoted(command.name));
  for (const Flag& flag : command.flags) {
    std::string spec =
        fmt::format("{}{}[{}]", flag.repeats ? "*" : "", flag.name, zsh_text(flag.summary));
    if (!flag.value.empty())
      spec += fmt::format(":{}:{}", zsh_text(flag.value), zsh_action(flag.choices));
    text += fmt::format(" \\\n        {}", quoted(spec));
  }
  for (const Positional& row : command.positionals) {
    text += fmt::format(" \\\n        {}",
                        quoted(fmt::format("{}:{}:{}", row.repeats ? "*" : "", zsh_text(row.name),
                                           zsh_action(row.choices))));
  }
  return text + " \\\n        '(-h --help)'{-h,--help}'[help]' ;;\n";
}

std::string zsh_completion(std::span<const Command* const> commands) {
  std::string text =
      "#compdef forebay\n"
      "_forebay() {\n"
      "  local command=\"${words[2]}\"\n"
      "  if (( CURRENT == 2 )); then\n"
      "    local -a names\n    names=(\n";
  for (const std::string_view first : first_words(commands)) {
    std::string_view summary = "commands";
    for (const Command* command : commands)
      if (command->name == first) summary = command->summary;
    text += fmt::format("      {}\n", quoted(fmt::format("{}:{}", first, summary)));
  }
  text +=
      "    )\n    _describe 'command' names\n    return\n  fi\n"
      "  local skip=1\n"
      "  case \"$command\" in\n";
  for (const std::string_view first : first_words(commands)) {
    const std::vector<std::string_view> seconds = second_words(commands, first);
    if (seconds.empty()) continue;
    text += fmt::format(
        "    {})\n      if (( CURRENT == 3 )); then\n        _values 'command' {}\n        return\n"
        "      fi\n      command=\"$command ${{words[3]}}\"\n      skip=2 ;;\n",
        first, fmt::join(seconds, " "));
  }
  text +=
      "  esac\n"
      "  words=(\"$command\" \"${(@)words[skip+2,-1]}\")\n"
      "  (( CURRENT -= skip ))\n"
      "  case \"$command\" in\n";
  for (const Command* command : commands) text += zsh_command(*command);
  return text +
         "  esac\n}\n"
         "if [ \"$funcstack[1]\" = _forebay ]; then _forebay; else compdef _forebay forebay; fi\n";
}

std::string fish_completion(std::span<const Command* const> commands) {
  std::string text = "# fish completion for forebay\n";
  const std::vector<std::string_view> firsts = first_words(commands);
  for (const std::string_view first : firsts) {
    std::string_view summary;
    for (const Command* command : commands)
      if (command->name == first) summary = command->summary;
    text += fmt::format("complete -c forebay -f -n __fish_use_subcommand -a {} -d {}\n", first,
                        quoted(summary));
  }
  for (const Command* command : commands) {
    const std::string_view first = first_word(command->name);
    const std::string_view second = second_word(command->name);
    std::string condition = fmt::format("__fish_seen_subcommand_from {}", first);
    if (!second.empty()) {
      text += fmt::format(
          "complete -c forebay -f -n '{}; and not __fish_seen_subcommand_from {}' -a {} -d {}\n",
          condition, fmt::join(second_words(commands, first), " "), second,
          quoted(command->summary));
      condition += fmt::format("; and __fish_seen_subcommand_from {}", second);
    }
    for (const std::string_view choice : positional_choices(*command))
      text += fmt::format("complete -c forebay -n '{}' -a {}\n", condition, choice);
    for (const Flag& flag : command->flags) {
      text += fmt::format("complete -c forebay -n '{}' -l {} -d {}", condition, flag.name.substr(2),
                          quoted(flag.summary));
      if (!flag.choices.empty())
        text += fmt::format(" -x -a '{}'", fmt::join(flag.choices, " "));
      else if (!flag.value.empty())
        text += " -r";
      text += "\n";
    }
  }
  return text;
}

constexpr std::array<std::string_view, 3> kShells{"bash", "zsh", "fish"};

}  // namespace

Result<std::string> completion(std::span<const Command* const> commands, std::string_view shell) {
  if (shell == "bash") return bash_completion(commands);
  if (shell == "zsh") return zsh_completion(commands);
  if (shell == "fish") return fish_completion(commands);
  return fail(ErrorCode::kInvalidArgument, "{}",
              base::unknown_name_message("shell", shell, kShells));
}

}  // namespace forebay::cli
