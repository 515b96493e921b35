// result.json: the whole result for programs. The schema is documented in docs/formats/result.md.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "emulate/result.h"
#include "forebay/result.h"

namespace forebay::report {

// Pretty-printed, valid JSON: what was not measured is null with its reason beside it.
std::string to_json(const emulate::RunResult& result);

// The figures `compare` needs, from a result.json. kCorruption names what is missing.
struct StoredFigure {
  std::string name, unit;
  double mean = 0, stdev = 0;
  uint64_t n = 0;
  bool is_better_when_higher = true;
};
struct StoredResult {
  std::string path, workload, outcome;
  int accelerators = 0;
  std::vector<StoredFigure> figures;
  std::map<std::string, std::string> settings;  // workload keys
  std::vector<std::string> conditions;          // "cache cold", "payload decode": what must agree
};
Result<StoredResult> parse_result(const std::string& path, const std::string& text);

}  // namespace forebay::report
