#include "cli/commands.h"

#include <array>

namespace forebay::cli {

std::span<const Command* const> commands() {
  // One on a line, in the order of the overview.
  static constexpr std::array kCommands{
      &kGenerate,
      &kInspect,
      &kSize,
      &kRun,
      &kCompare,
      &kRecord,
      &kExplain,
      &kReport,
      &kImport,
      &kExport,
      &kCheckpointList,
      &kCheckpointVerify,
      &kCheckpointRestore,
      &kCheckpointCopy,
      &kCheckpointPrune,
      &kList,
      &kHelp,
      &kCompletion,
  };
  return kCommands;
}

}  // namespace forebay::cli
