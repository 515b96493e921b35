// Stalls as differences between runs, for people and for programs: of an emulated workload, and of
// a recorded program. The schema is documented in docs/formats/stalls.md.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <string>
#include <vector>

#include "emulate/findings.h"
#include "trace/differential.h"

namespace forebay::report {

// At most 80 columns.
std::string stalls_text(const emulate::StallsFound& found);
std::string stalls_json(const emulate::StallsFound& found);

// Of a program that was run by commands.
struct ProgramStalls {
  std::string version, command;           // of Forebay; as typed
  std::vector<std::string> run_commands;  // by trace::RunKind; "" where there was none
  std::string data;                       // the folder that is made cold and warm, or ""
  std::string step_source;  // where steps come from: "marks", "--steps 200", "whole run"
  int repeats_asked = 0, repeats = 0;
  trace::DifferentialTimes times;  // seconds a step, or of the whole run
  trace::DifferentialStalls stalls;
  std::vector<std::string> notes;
  bool is_interrupted = false;
};
std::string stalls_text(const ProgramStalls& found);
std::string stalls_json(const ProgramStalls& found);

}  // namespace forebay::report
