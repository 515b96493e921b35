#include "cli/commands.h"

#include <array>

namespace forebay::cli {

std::span<const Command* const> commands() {
  static constexpr std::array<const Command*, 8> kCommands{
      &kGenerate, &kInspect, &kSize, &kRun, &kCompare, &kList, &kHelp, &kCompletion};
  return kCommands;
}

}  // namespace forebay::cli
