// The advice: one table of rules, each judged on what the other analyses found.
//
// Pure functions.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "explain/driver_time.h"
#include "explain/explanation.h"

namespace forebay::explain {

// What rules may look at.
struct Findings {
  const View& view;
  const JobTime& time;
  const Explanation& found;
  int cores = 1;                                     // that the program may use
  std::optional<double> pressure_memory_share = {};  // mean of PSI "some"
  std::optional<double> device_read_bytes = {};      // of the program's processes
  std::optional<int64_t> available_bytes_min = {};
  Breakdown shown = {};
  int64_t total_ns() const { return shown.total_ns(); }
};
Findings look(const View& view, const JobTime& time, const Explanation& found);

struct Rule {
  std::string_view id = {};
  std::string_view needs = {};
  std::string_view threshold = {};
  std::string_view threshold_source = {};
  std::string_view gain_formula = {};
  // Sets state, title, evidence, remedies and gain_ns.
  void (*judge)(const Findings& findings, Advice& advice) = nullptr;
};

// In no order that matters: the advice is ranked by gain.
std::span<const Rule> rules();

// All rules judged: those that apply by gain, then those not needed, then those without evidence.
std::vector<Advice> advise(const Findings& findings);

}  // namespace forebay::explain
