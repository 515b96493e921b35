// Where a command's words go: data to stdout, talk to stderr, progress to a terminal only.
//
// One thread.
#pragma once

#include <string>
#include <string_view>

#include "forebay/result.h"
#include "report/text.h"

namespace forebay::cli {

// Exit codes of every command.
constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitGateNotMet = 3;
constexpr int kExitInterrupted = 130;
constexpr int kExitReaderLeft = 141;  // as SIGPIPE would have ended it

int exit_code_of(const Error& error);

// The message when whoever read stdout has gone ("| head"): no fault worth words.
constexpr std::string_view kReaderLeft = "the reader of standard output has left";

// kIo when stdout is closed or full.
Status print(std::string_view text);
void talk(std::string_view text);  // to stderr
// Replaces the progress line; "" clears it. Nothing unless stderr is a terminal.
void show_progress(std::string_view line);

report::TextStyle stdout_style();
report::TextStyle stderr_style();

}  // namespace forebay::cli
