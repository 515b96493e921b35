#include "emulate/reading_check.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "emulate/data_source.h"

namespace forebay::emulate {
namespace {

constexpr double kShareMin = 0.5;

// Samples from memory, of no file, or of which some columns stay unread.
bool may_read_less(const workload::Workload& workload) {
  const auto& columns = workload.dataset.parquet_columns;
  return workload.reader.in_memory || is_synthetic(workload) ||
         std::any_of(columns.begin(), columns.end(),
                     [](const workload::ParquetColumn& column) { return !column.is_read; });
}

}  // namespace

std::string describe_unread_bytes(const RunResult& result) {
  if (may_read_less(result.resolved.workload)) return "";
  for (const EpochResult& epoch : result.epochs) {
    const DatasetFacts& facts = epoch.is_evaluation ? result.evaluation_dataset : result.dataset;
    if (facts.samples == 0) continue;
    const double needed = static_cast<double>(facts.bytes) / static_cast<double>(facts.samples) *
                          static_cast<double>(epoch.samples);
    const auto read = static_cast<double>(epoch.file_bytes);
    if (read >= kShareMin * needed) continue;
    return fmt::format(
        "{} {} read {} where its {} samples take {}: the rest came from elsewhere than the storage",
        epoch.is_evaluation ? "evaluation" : "epoch", epoch.epoch, base::format_bytes(read),
        base::format_count(epoch.samples), base::format_bytes(needed));
  }
  return "";
}

}  // namespace forebay::emulate
