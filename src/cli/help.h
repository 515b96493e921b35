// The texts made from command tables: help, man page, docs/cli.md, shell completion.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/flags.h"
#include "forebay/result.h"

namespace forebay::cli {

// `forebay -h`: the commands by group, groups in the order of their first command. `start` is a
// command line for newcomers.
std::string overview(std::span<const Command* const> commands, std::string_view start);

// `forebay run -h`: one line per flag, 80 columns.
std::string short_help(const Command& command);
// `forebay run --help`: details and examples too.
std::string long_help(const Command& command);
// `forebay checkpoint -h`: the commands whose first word is `first`, and what they are for.
std::string group_help(std::span<const Command* const> commands, std::string_view first);
// "usage: forebay run WORKLOAD [KEY=VALUE...] [options]"
std::string usage(const Command& command);

// forebay(1) in roff, and docs/cli.md.
std::string man_page(std::span<const Command* const> commands, std::string_view version);
std::string cli_markdown(std::span<const Command* const> commands);

// `shell` is bash, zsh or fish.
Result<std::string> completion(std::span<const Command* const> commands, std::string_view shell);

}  // namespace forebay::cli
