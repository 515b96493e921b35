// Functions that ran, grouped by module, symbol and call path under ids that hold across runs; and
// what changed between two recordings.
//
// Pure functions of a view.
#pragma once

#include <string>
#include <vector>

#include "explain/driver_time.h"
#include "explain/explanation.h"
#include "explain/view.h"

namespace forebay::explain {

// What a swarm is part of, whoever called it: "load (train.py:88)"; of a library without symbols
// all of it, as each address there is a swarm of its own and says nothing to anyone.
std::string function_of(const Swarm& swarm);

// CPU samples where there are any; else spans of functions, operators and kernels by their own
// time.
std::vector<Swarm> swarms_of(const View& view, std::string& reason);

// One recording as two are compared: its iterations (or windows), what each had.
struct Measured {
  std::string unit = {};  // "iteration" or "second"
  struct Row {
    std::string what = {}, id = {}, module = {}, path = {};
    std::vector<double> ns = {};  // by iteration
  };
  std::vector<double> lengths = {};
  struct Rows {
    std::vector<Row> rows = {};       // parts, then swarms
    std::vector<Row> functions = {};  // each once
  };
  Rows in_units = {};
  Rows by_second = {};  // for a comparison with one that has no iterations
};
Measured measure(const View& view, const JobTime& time, const Explanation& explanation);

// A difference of less than this part of what it is about, or of kStepShare of the unit, is not
// called significant, however sure it is. Each side is one run: between two runs of one program the
// place of its code and data in memory alone makes differences of some per cent (Mytkowicz et al.,
// "Producing wrong data without doing anything obviously wrong", 2009), which all iterations of a
// run share and no test over them can tell from a change of the program. It is the share that
// advice asks of a change, too. Less than kStepShare of the whole is nobody's reason for anything.
inline constexpr double kEffectShare = 0.05, kStepShare = 0.01;

Comparison compare(const Measured& before, const Measured& after, std::string against);

// Two-sided p of the Mann-Whitney test by the normal approximation, ties corrected; nothing below
// four values on a side.
std::optional<double> mann_whitney_p(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace forebay::explain
