// Judges two results: which figures differ by more than their spread.
//
// Pure functions; safe to call from any thread.
#pragma once

#include <string>
#include <vector>

#include "report/json.h"

namespace forebay::report {

struct Difference {
  enum class Judgement { kBetter, kWorse, kSame, kUnknown };
  std::string name, unit;
  double before = 0, after = 0, before_stdev = 0, after_stdev = 0;
  uint64_t before_n = 0, after_n = 0;
  double ratio = 1;
  Judgement judgement = Judgement::kUnknown;  // kUnknown: a single value has no spread
};

struct Comparison {
  std::vector<Difference> differences;
  std::vector<std::string> warnings;  // conditions that are not the same
};

// A figure differs when Welch's t of the two means exceeds the two-sided 95 % point of its degrees
// of freedom; figures with fewer than two values on a side have no spread and are not judged.
Comparison compare(const StoredResult& before, const StoredResult& after);

std::string comparison_text(const StoredResult& before, const StoredResult& after,
                            const Comparison& comparison);
std::string comparison_json(const StoredResult& before, const StoredResult& after,
                            const Comparison& comparison);

}  // namespace forebay::report
