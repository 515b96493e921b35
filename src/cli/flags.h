// One table per command: a flag is one row, and the row feeds parsing, help, man page, docs and
// completion.
//
// Tables are constants that outlive everything made from them. Arguments is a value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forebay/result.h"

namespace forebay::cli {

class Arguments;

struct Flag {
  std::string_view name = {};                      // "--accelerators"
  std::string_view value = {};                     // "N"; empty for a switch
  std::string_view fallback = {};                  // the value when not given; empty = none
  std::string_view summary = {};                   // one line, for -h
  std::string_view detail = {};                    // further sentences, for --help; may be empty
  std::span<const std::string_view> choices = {};  // the only values allowed; empty = any
  bool repeats = false;
};

struct Positional {
  std::string_view name = {};  // "WORKLOAD"
  std::string_view summary = {};
  bool required = false;
  bool repeats = false;   // takes all that follow; only the last may
  bool verbatim = false;  // from here on nothing is a flag of ours: a program and its arguments
  std::span<const std::string_view> choices = {};
};

struct Command {
  std::string_view name = {};   // "run", or two words: "checkpoint save"
  std::string_view group = {};  // heading in the overview: "measure"
  std::string_view summary = {};
  std::string_view detail = {};
  std::span<const Positional> positionals = {};
  std::span<const Flag> flags = {};
  Result<int> (*run)(const Arguments& arguments) = nullptr;  // the exit code
  std::span<const std::string_view> examples = {};           // "forebay run resnet50"
};

enum class HelpRequest { kNone, kShort, kLong };  // kShort: -h, kLong: --help

// What was typed, checked against the table. Asking for a name that the table lacks is a bug.
class Arguments {
 public:
  HelpRequest help() const { return help_; }
  const Command& command() const { return *command_; }

  // Whether the flag or positional was typed.
  bool has(std::string_view name) const;
  // The typed value (the last one of several), else the fallback, else nothing.
  std::optional<std::string> get(std::string_view name) const;
  // Every typed value, in order; the fallback alone when nothing was typed.
  std::vector<std::string> all(std::string_view name) const;

  // As numbers. kInvalidArgument names the flag, its range and what was typed; also when there is
  // neither a value nor a fallback.
  Result<int64_t> integer(std::string_view name, int64_t min, int64_t max) const;
  Result<double> number(std::string_view name, double min, double max) const;
  Result<uint64_t> bytes(std::string_view name, uint64_t min = 0, uint64_t max = UINT64_MAX) const;
  Result<uint64_t> bytes_per_second(std::string_view name) const;  // also "200MB/s"
  Result<int64_t> duration_ns(std::string_view name) const;
  Result<double> fraction(std::string_view name) const;  // "50%" or "0.5", in [0, 1]

 private:
  friend Result<Arguments> parse(const Command& command, std::span<const char* const> words);

  Result<std::string> need(std::string_view name) const;

  const Command* command_ = nullptr;
  HelpRequest help_ = HelpRequest::kNone;
  std::vector<std::pair<std::string_view, std::string>> values_;  // row name, as typed
};

// Reads the words after the command's name: "--flag value", "--flag=value", "--" = only positionals
// follow. With -h or --help the rest is not checked. Errors are kInvalidArgument.
Result<Arguments> parse(const Command& command, std::span<const char* const> words);

struct Selection {
  const Command* command = nullptr;
  std::span<const char* const> rest;  // the words after its name
};

// The commands of two words whose first is `first`: "checkpoint list", "checkpoint verify".
std::vector<const Command*> commands_of(std::span<const Command* const> commands,
                                        std::string_view first);

// The command that `words` begin with; kInvalidArgument names the nearest known one.
Result<Selection> select_command(std::span<const Command* const> commands,
                                 std::span<const char* const> words);

}  // namespace forebay::cli
