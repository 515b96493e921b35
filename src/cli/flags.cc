#include "cli/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace forebay::cli {
namespace {

const Flag* find_flag(const Command& command, std::string_view name) {
  for (const Flag& flag : command.flags)
    if (flag.name == name) return &flag;
  return nullptr;
}

const Positional* find_positional(const Command& command, std::string_view name) {
  for (const Positional& positional : command.positionals)
    if (positional.name == name) return &positional;
  return nullptr;
}

// "-" is a file name (standard input), "-1" and "-.5" are numbers.
bool looks_like_flag(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return false;
  return std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != '.';
}

Error unknown_flag(const Command& command, std::string_view typed) {
  std::vector<std::string_view> known = {"--help"};
  for (const Flag& flag : command.flags) known.push_back(flag.name);
  const std::string nearest = base::nearest_name(typed, known);
  const std::string hint = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  return fail(ErrorCode::kInvalidArgument, "'{}' has no flag '{}'{} (all: forebay {} -h)",
              command.name, typed, hint, command.name);
}

Status check_choice(std::string_view name, std::string_view typed,
                    std::span<const std::string_view> choices) {
  if (choices.empty() || std::find(choices.begin(), choices.end(), typed) != choices.end())
    return {};
  const std::string nearest = base::nearest_name(typed, choices);
  const std::string hint = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  return fail(ErrorCode::kInvalidArgument, "{} is one of {}, not '{}'{}", name,
              fmt::join(choices, ", "), typed, hint);
}

// Takes the words one after another and sorts them to rows of the table.
class Parser {
 public:
  Parser(const Command& command, std::span<const char* const> words)
      : command_(command), words_(words) {}

  Status run() {
    while (at_ < words_.size() && help == HelpRequest::kNone) {
      const std::string_view word = words_[at_++];
      if (only_positionals_ || !looks_like_flag(word)) {
        FB_TRY(take_positional(word));
      } else if (word == "--") {
        only_positionals_ = true;
      } else if (word == "-h" || word == "--help") {
        help = word == "-h" ? HelpRequest::kShort : HelpRequest::kLong;
      } else {
        FB_TRY(take_flag(word));
      }
    }
    return help == HelpRequest::kNone ? check_required() : Status();
  }

  std::vector<std::pair<std::string_view, std::string>> values;
  HelpRequest help = HelpRequest::kNone;

 private:
  bool was_given(std::string_view name) const {
    return std::any_of(values.begin(), values.end(),
                       [&](const auto& entry) { return entry.first == name; });
  }

  Status take_positional(std::string_view word) {
    if (row_ >= command_.positionals.size()) {
      return fail(ErrorCode::kInvalidArgument, "'{}' has no place for '{}' (forebay {} -h)",
                  command_.name, word, command_.name);
    }
    const Positional& row = command_.positionals[row_];
    if (!row.repeats) ++row_;
    if (row.verbatim) only_positionals_ = true;
    FB_TRY(check_choice(row.name, word, row.choices));
    values.emplace_back(row.name, word);
    return {};
  }

  Status take_flag(std::string_view word) {
    const size_t equals = word.find('=');
    const bool has_value = equals != std::string_view::npos;
    const std::string_view name = word.substr(0, equals);
    const Flag* flag = find_flag(command_, name);
    if (!flag) return unknown_flag(command_, name);
    if (!flag->repeats && was_given(name))
      return fail(ErrorCode::kInvalidArgument, "{} is given twice", name);

    std::string_view value = has_value ? word.substr(equals + 1) : std::string_view();
    if (flag->value.empty() && has_value)
      return fail(ErrorCode::kInvalidArgument, "{} takes no value, and got '{}'", name, value);
    if (!flag->value.empty() && !has_value) value = FB_TRY(next_word(*flag));
    FB_TRY(check_choice(name, value, flag->choices));
    // Mostly a variable of a script that is not set; to be left out is another thing.
    if (!flag->value.empty() && value.empty())
      return fail(ErrorCode::kInvalidArgument, "{} needs {}, not ''", name, flag->value);
    values.emplace_back(flag->name, value);
    return {};
  }

  Result<std::string_view> next_word(const Flag& flag) {
    if (at_ == words_.size()) {
      return fail(ErrorCode::kInvalidArgument, "{} needs a value: {} {}", flag.name, flag.name,
                  flag.value);
    }
    const std::string_view word = words_[at_++];
    if (!looks_like_flag(word)) return word;
    return fail(ErrorCode::kInvalidArgument,
                "{} needs a value, and '{}' looks like a flag (if it is meant: {}={})", flag.name,
                word, flag.name, word);
  }

  Status check_required() const {
    for (const Positional& row : command_.positionals) {
      if (row.required && !was_given(row.name)) {
        return fail(ErrorCode::kInvalidArgument, "'{}' needs {}: {} (forebay {} -h)", command_.name,
                    row.name, row.summary, command_.name);
      }
    }
    return {};
  }

  const Command& command_;
  std::span<const char* const> words_;
  size_t at_ = 0;   // next word
  size_t row_ = 0;  // next positional
  bool only_positionals_ = false;
};

}  // namespace

bool Arguments::has(std::string_view name) const {
  FB_CHECK(find_flag(*command_, name) || find_positional(*command_, name));
  return std::any_of(values_.begin(), values_.end(),
                     [&](const auto& entry) { return entry.first == name; });
}

std::optional<std::string> Arguments::get(std::string_view name) const {
  const std::vector<std::string> values = all(name);
  if (values.empty()) return std::nullopt;
  return values.back();
}

std::vector<std::string> Arguments::all(std::string_view name) const {
  const Flag* flag = find_flag(*command_, name);
  FB_CHECK(flag || find_positional(*command_, name));
  std::vector<std::string> values;
  for (const auto& entry : values_)
    if (entry.first == name) values.push_back(entry.second);
  if (values.empty() && flag && !flag->fallback.empty()) values.emplace_back(flag->fallback);
  return values;
}

Result<std::string> Arguments::need(std::string_view name) const {
  std::optional<std::string> text = get(name);
  if (text) return *std::move(text);
  const Flag* flag = find_flag(*command_, name);
  return fail(ErrorCode::kInvalidArgument, "'{}' needs {}{}{}", command_->name, name,
              flag ? " " : "", flag ? flag->value : "");
}

Result<int64_t> Arguments::integer(std::string_view name, int64_t min, int64_t max) const {
  const std::string text = FB_TRY(need(name));
  const Result<int64_t> value = base::parse_int(text);
  if (value.ok() && *value >= min && *value <= max) return *value;
  if (max == INT64_MAX)
    return fail(ErrorCode::kInvalidArgument, "{} takes a whole number from {} on, not '{}'", name,
                min, text);
  return fail(ErrorCode::kInvalidArgument, "{} takes a whole number from {} to {}, not '{}'", name,
              min, max, text);
}

Result<double> Arguments::number(std::string_view name, double min, double max) const {
  const std::string text = FB_TRY(need(name));
  const Result<double> value = base::parse_double(text);
  if (value.ok() && *value >= min && *value <= max) return *value;
  return fail(ErrorCode::kInvalidArgument, "{} takes a number from {} to {}, not '{}'", name, min,
              max, text);
}

Result<uint64_t> Arguments::bytes(std::string_view name, uint64_t min, uint64_t max) const {
  const std::string text = FB_TRY(need(name));
  const uint64_t value = FB_TRY(base::parse_bytes(text).context(std::string(name)));
  if (value >= min && value <= max) return value;
  if (max == UINT64_MAX)
    return fail(ErrorCode::kInvalidArgument, "{} takes a size of {} bytes or more, not '{}'", name,
                min, text);
  return fail(ErrorCode::kInvalidArgument, "{} takes a size from {} to {} bytes, not '{}'", name,
              min, max, text);
}

Result<uint64_t> Arguments::bytes_per_second(std::string_view name) const {
  const std::string text = FB_TRY(need(name));
  return base::parse_bytes_per_second(text).context(std::string(name));
}

Result<int64_t> Arguments::duration_ns(std::string_view name) const {
  const std::string text = FB_TRY(need(name));
  return base::parse_duration_ns(text).context(std::string(name));
}

Result<double> Arguments::fraction(std::string_view name) const {
  const std::string text = FB_TRY(need(name));
  const double value = FB_TRY(base::parse_fraction(text).context(std::string(name)));
  if (value >= 0 && value <= 1) return value;
  return fail(ErrorCode::kInvalidArgument, "{} takes a share from 0% to 100%, not '{}'", name,
              text);
}

Result<Arguments> parse(const Command& command, std::span<const char* const> words) {
  Parser parser(command, words);
  FB_TRY(parser.run());
  Arguments arguments;
  arguments.command_ = &command;
  arguments.help_ = parser.help;
  arguments.values_ = std::move(parser.values);
  return arguments;
}

std::vector<const Command*> commands_of(std::span<const Command* const> commands,
                                        std::string_view first) {
  std::vector<const Command*> found;
  for (const Command* command : commands) {
    const size_t blank = command->name.find(' ');
    if (blank != std::string_view::npos && command->name.substr(0, blank) == first)
      found.push_back(command);
  }
  return found;
}

Result<Selection> select_command(std::span<const Command* const> commands,
                                 std::span<const char* const> words) {
  if (words.empty()) return fail(ErrorCode::kInvalidArgument, "no command given");
  const std::string first = words[0];
  const std::string both = words.size() > 1 ? fmt::format("{} {}", first, words[1]) : first;
  std::vector<std::string_view> names, second_words;
  for (const Command* command : commands) {
    const size_t word_count = command->name.find(' ') == std::string_view::npos ? 1 : 2;
    if (command->name == (word_count == 1 ? first : both))
      return Selection{command, words.subspan(word_count)};
    names.push_back(command->name);
  }
  for (const Command* command : commands_of(commands, first))
    second_words.push_back(command->name.substr(first.size() + 1));
  if (second_words.empty())
    return fail(ErrorCode::kInvalidArgument, "{}",
                base::unknown_name_message("command", first, names));
  if (words.size() == 1)
    return fail(ErrorCode::kInvalidArgument, "'{}' is followed by one of: {}", first,
                fmt::join(second_words, ", "));
  return fail(ErrorCode::kInvalidArgument, "{}",
              base::unknown_name_message(fmt::format("{} command", first), words[1], second_words));
}

}  // namespace forebay::cli
