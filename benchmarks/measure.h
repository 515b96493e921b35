// Interleaved measurement of two variants, and the table they end up in.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace forebay::bench {

// One repetition of one variant.
struct Sample {
  double wall_seconds = 0;
  double cpu_seconds = 0;
  double amount = 0;  // bytes or files done
};

struct Summary {
  double median = 0, mad = 0;  // mad: median absolute deviation
  size_t n = 0;
};
Summary summarise(std::vector<double> values);

// Runs `body`, timing the process's wall and CPU; it returns the amount done.
Sample timed(const std::function<double()>& body);

// Alternates floor and ours `rounds` times, after one unmeasured round of each.
struct Pair {
  std::vector<Sample> floor, ours;
};
Pair interleave(int rounds, const std::function<Sample()>& floor,
                const std::function<Sample()>& ours);

// One line of the table: what was asked, what was seen.
struct Row {
  std::string name;
  std::string target;  // ">= 0.95"
  double target_value = 0;
  bool higher_is_better = true;
  Summary ratio;
  std::string detail;  // absolute figures and how the cache was made
  bool is_met() const {
    return higher_is_better ? ratio.median >= target_value : ratio.median <= target_value;
  }
};

// Ours over floor, round by round: rate and CPU per amount.
Summary rate_ratio(const Pair& pair);
Summary cpu_ratio(const Pair& pair);
double median_rate(const std::vector<Sample>& samples);
double median_cpu_per_amount(const std::vector<Sample>& samples);

void print_row(const Row& row);
// One JSON line per row, with host, kernel, version and settings.
void append_json(const std::string& path, const Row& row, bool is_smoke);

}  // namespace forebay::bench
