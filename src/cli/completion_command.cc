// forebay completion: a script for the shell.
#include <array>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/help.h"

namespace forebay::cli {
namespace {

constexpr std::array<std::string_view, 3> kShells{"bash", "zsh", "fish"};

constexpr std::array<Positional, 1> kPositionals{{
    {.name = "SHELL", .summary = "bash, zsh or fish", .required = true, .choices = kShells},
}};

Result<int> run(const Arguments& arguments) {
  const std::string script = FB_TRY(completion(commands(), *arguments.get("SHELL")));
  FB_TRY(print(script));
  return kExitDone;
}

}  // namespace

const Command kCompletion{.name = "completion",
                          .group = "prepare",
                          .summary = "print a shell completion script",
                          .positionals = kPositionals,
                          .run = run};

}  // namespace forebay::cli
