#include "report/dlio_figures.h"

#include <cmath>
#include <cstdlib>

#include "emulate/metrics.h"

namespace forebay::report {
namespace {

using emulate::EpochResult;
using emulate::RunResult;

constexpr double kMebi = 1048576.0;

double record_bytes(const workload::Dataset& data) {
  if (data.record_dims.empty()) return data.record_length_bytes;
  double bytes = data.record_element_type == "uint8" || data.record_element_type == "int8" ||
                         data.record_element_type == "bool"
                     ? 1
                     : 0;
  for (const char* digits : {"16", "32", "64", "128"})
    if (data.record_element_type.ends_with(digits)) bytes = std::strtod(digits, nullptr) / 8;
  for (const uint64_t side : data.record_dims) bytes *= static_cast<double>(side);
  return bytes;
}

emulate::Spread spread_of(const std::vector<std::optional<double>>& values) {
  std::vector<double> measured;
  for (const std::optional<double>& value : values)
    if (value && std::isfinite(*value)) measured.push_back(*value);
  return emulate::spread_of(measured, "nothing was measured");
}

std::optional<double> percent(const emulate::Figure& figure) {
  return figure.value ? std::optional(100 * *figure.value) : std::nullopt;
}

std::optional<bool> meets(const DlioSpread& au_percent, double gate) {
  return au_percent.mean ? std::optional(*au_percent.mean >= 100 * gate) : std::nullopt;
}

}  // namespace

DlioSpread dlio_spread(const emulate::Spread& spread, double factor) {
  if (spread.n == 0 || !spread.mean || !std::isfinite(*spread.mean)) return {};
  const auto n = static_cast<double>(spread.n);
  const double over_n = spread.stdev ? *spread.stdev * std::sqrt((n - 1) / n) : 0;
  return {*spread.mean * factor,
          std::isfinite(over_n) ? std::optional(over_n * factor) : std::nullopt};
}

DlioFigures dlio_figures(const RunResult& result) {
  const workload::Workload& workload = result.resolved.workload;
  DlioFigures figures;
  figures.record_mib = record_bytes(workload.dataset) / kMebi;
  for (const EpochResult& epoch : result.epochs) {
    (epoch.is_evaluation ? figures.eval_au : figures.train_au).push_back(percent(epoch.dlio_au));
    if (epoch.is_evaluation)
      figures.eval_rate.push_back(epoch.samples_per_second.value);
    else
      figures.train_rate.push_back(epoch.dlio_samples_per_second.value);
  }
  figures.train_au_percent = dlio_spread(result.dlio_au, 100);
  figures.train_samples_per_second = dlio_spread(result.dlio_samples_per_second);
  figures.train_mib_per_second = dlio_spread(result.dlio_samples_per_second, figures.record_mib);
  figures.train_meets = meets(figures.train_au_percent, workload.metric.au);
  const emulate::Spread eval_rate = spread_of(figures.eval_rate);
  figures.eval_au_percent = dlio_spread(spread_of(figures.eval_au));
  figures.eval_samples_per_second = dlio_spread(eval_rate);
  figures.eval_mib_per_second = dlio_spread(eval_rate, figures.record_mib);
  figures.eval_meets = meets(figures.eval_au_percent, workload.metric.au);
  // What was measured stays; a run that was stopped, failed or lost samples has not passed.
  if (result.is_interrupted || !result.error.empty() ||
      result.verdict.outcome == emulate::Verdict::Outcome::kIncomplete)
    figures.train_meets = figures.eval_meets = false;
  const auto add = [](const std::vector<emulate::CheckpointRecord>& records, DlioSpread& rate,
                      DlioSpread& seconds) {
    std::vector<double> rates, times;
    for (const emulate::CheckpointRecord& record : records) {
      rates.push_back(dlio_checkpoint_rate(record, 0));
      times.push_back(dlio_checkpoint_seconds(record, 0));
    }
    rate = dlio_spread(emulate::spread_of(rates, "there was none"));
    seconds = dlio_spread(emulate::spread_of(times, "there was none"));
  };
  add(result.checkpoints, figures.save_gib_per_second, figures.save_seconds);
  add(result.restores, figures.load_gib_per_second, figures.load_seconds);
  return figures;
}

double dlio_checkpoint_seconds(const emulate::CheckpointRecord& record, size_t rank) {
  return rank < record.ranks.size() ? record.ranks[rank].seconds : record.seconds;
}

double dlio_checkpoint_rate(const emulate::CheckpointRecord& record, size_t rank) {
  return static_cast<double>(record.bytes) / (1024 * kMebi) / dlio_checkpoint_seconds(record, rank);
}

}  // namespace forebay::report
