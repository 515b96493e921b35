// Every subcommand, in the order of `forebay -h`. To add one: a file with its constant, and a line
// in commands.cc.
#pragma once

#include <span>

#include "cli/flags.h"

namespace forebay::cli {

extern const Command kGenerate;
extern const Command kInspect;
extern const Command kSize;
extern const Command kRun;
extern const Command kCompare;
extern const Command kRecord;
extern const Command kExplain;
extern const Command kReport;
extern const Command kImport;
extern const Command kExport;
extern const Command kCheckpointList;
extern const Command kCheckpointVerify;
extern const Command kCheckpointRestore;
extern const Command kCheckpointCopy;
extern const Command kCheckpointPrune;
extern const Command kList;
extern const Command kHelp;
extern const Command kCompletion;

std::span<const Command* const> commands();

}  // namespace forebay::cli
