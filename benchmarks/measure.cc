#include "measure.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "sys/host.h"
#include "sys/process.h"

namespace forebay::bench {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

template <class F>
std::vector<double> map(const std::vector<Sample>& samples, F f) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(f(sample));
  return values;
}

double rate(const Sample& s) {
  return s.amount / s.wall_seconds;
}
double cost(const Sample& s) {
  return s.cpu_seconds / s.amount;
}

template <class F>
Summary ratio(const Pair& pair, F f) {
  std::vector<double> ratios;
  for (size_t i = 0; i < pair.ours.size(); ++i)
    ratios.push_back(f(pair.ours[i]) / f(pair.floor[i]));
  return summarise(ratios);
}

}  // namespace

Summary summarise(std::vector<double> values) {
  Summary summary;
  summary.n = values.size();
  summary.median = median(values);
  for (double& value : values) value = std::abs(value - summary.median);
  summary.mad = median(values);
  return summary;
}

Sample timed(const std::function<double()>& body) {
  const sys::Usage before = sys::process_usage();
  const int64_t start = base::monotonic_clock().now_ns();
  Sample sample;
  sample.amount = body();
  sample.wall_seconds = static_cast<double>(base::monotonic_clock().now_ns() - start) * 1e-9;
  sample.cpu_seconds = sys::process_usage().cpu_seconds() - before.cpu_seconds();
  return sample;
}

Pair interleave(int rounds, const std::function<Sample()>& floor,
                const std::function<Sample()>& ours) {
  Pair pair;
  floor();
  ours();
  for (int round = 0; round < rounds; ++round) {
    // The order alternates, so that neither always follows the other.
    if (round % 2 == 0) pair.floor.push_back(floor());
    pair.ours.push_back(ours());
    if (round % 2 == 1) pair.floor.push_back(floor());
  }
  return pair;
}

Summary rate_ratio(const Pair& pair) {
  return ratio(pair, rate);
}
Summary cpu_ratio(const Pair& pair) {
  return ratio(pair, cost);
}
double median_rate(const std::vector<Sample>& samples) {
  return median(map(samples, rate));
}
double median_cpu_per_amount(const std::vector<Sample>& samples) {
  return median(map(samples, cost));
}

void print_row(const Row& row) {
  std::printf("%-46s %-9s %6.3f  +-%5.3f  n=%-3zu %-7s %s\n", row.name.c_str(), row.target.c_str(),
              row.ratio.median, row.ratio.mad, row.ratio.n, row.is_met() ? "met" : "MISSED",
              row.detail.c_str());
  std::fflush(stdout);
}

void append_json(const std::string& path, const Row& row, bool is_smoke) {
  if (path.empty()) return;
  const sys::Host host = sys::host();
  nlohmann::ordered_json json{{"schema_version", 1},         {"name", row.name},
                              {"target", row.target},        {"ratio_median", row.ratio.median},
                              {"ratio_mad", row.ratio.mad},  {"n", row.ratio.n},
                              {"is_met", row.is_met()},      {"detail", row.detail},
                              {"is_smoke", is_smoke},        {"host", host.name},
                              {"kernel", host.kernel},       {"cpu_model", host.cpu_model},
                              {"cpu_count", host.cpu_count}, {"time", std::time(nullptr)}};
  if (std::FILE* file = std::fopen(path.c_str(), "ae")) {
    std::fprintf(file, "%s\n", json.dump().c_str());
    std::fclose(file);
  }
}

}  // namespace forebay::bench
