#include "emulate/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace forebay::emulate {
namespace {

constexpr double kGiga = 1e9;

double sum(std::span<const double> values, uint64_t first, uint64_t last) {
  last = std::min<uint64_t>(last, values.size());
  return first < last ? std::accumulate(values.begin() + static_cast<int64_t>(first),
                                        values.begin() + static_cast<int64_t>(last), 0.0)
                      : 0.0;
}

Figure per_gb(double cpu_seconds, uint64_t bytes) {
  if (bytes == 0) return Figure::none("no bytes were read");
  return Figure::of(cpu_seconds / (static_cast<double>(bytes) / kGiga));
}

// See CriticalSplit. Accelerators that came last together count once each, so stalls are cut to the
// wall.
CriticalSplit critical_of(const EpochResult& epoch, bool has_barrier) {
  CriticalSplit critical;
  if (!has_barrier) return epoch.split;
  for (const RankEpoch& rank : epoch.ranks) critical.add(rank.last, 1);
  const double wall = epoch.split.total() - epoch.split.checkpoint;
  critical.compute = std::min(epoch.split.compute, wall);
  double left = wall - critical.compute;
  for (double* part : {&critical.fetch, &critical.decode, &critical.other}) {
    *part = std::clamp(*part, 0.0, left);
    left -= *part;
  }
  critical.sync = left;
  critical.checkpoint = epoch.split.checkpoint;
  return critical;
}

}  // namespace

RankQuantiles over_ranks(
    std::span<const CheckpointRecord> records,
    const std::function<std::optional<double>(const RankCheckpoint&)>& figure) {
  std::vector<double> values;
  for (const CheckpointRecord& record : records)
    for (const RankCheckpoint& rank : record.ranks)
      if (const std::optional<double> value = figure(rank)) values.push_back(*value);
  RankQuantiles out;
  out.n = values.size();
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  out.median = values[(values.size() - 1) / 2];
  out.max = values.back();
  return out;
}

Spread spread_of(std::span<const double> values, std::string reason_when_empty) {
  Spread spread;
  spread.n = values.size();
  if (values.empty()) {
    spread.reason = std::move(reason_when_empty);
    return spread;
  }
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  spread.mean = mean;
  if (values.size() > 1) {
    double square = 0;
    for (const double v : values) square += (v - mean) * (v - mean);
    spread.stdev = std::sqrt(square / static_cast<double>(values.size() - 1));
  }
  return spread;
}

StepRange included_steps(uint64_t steps, uint64_t exclude_start, uint64_t exclude_end) {
  const uint64_t last = steps > exclude_end ? steps - exclude_end : 0;
  return {std::min(exclude_start, last), last};
}

DlioBlock dlio_block(const Block& block, uint64_t exclude_start, uint64_t exclude_end,
                     uint64_t epoch_steps, uint64_t batch_size) {
  DlioBlock result;
  result.steps = block.compute.size();
  const StepRange range = included_steps(epoch_steps, exclude_start, exclude_end);
  const double window = block.end - block.start - sum(block.proc, 0, range.first) -
                        sum(block.proc, range.last, block.proc.size());
  const uint64_t used = std::min<uint64_t>(range.last, result.steps);
  if (used <= range.first || window <= 0) {
    result.au = result.samples_per_second = Figure::none("every step of the block is excluded");
    return result;
  }
  result.au = Figure::of(sum(block.compute, range.first, range.last) / window);
  result.samples_per_second =
      Figure::of(static_cast<double>((used - range.first) * batch_size) / window);
  return result;
}

void dlio_epoch(EpochResult& epoch, uint64_t exclude_start, uint64_t exclude_end,
                uint64_t batch_size) {
  // Sums over ranks of the step-weighted means over blocks.
  double au_sum = 0, rate_sum = 0;
  uint64_t au_ranks = 0, rate_ranks = 0;
  for (const RankEpoch& rank : epoch.ranks) {
    double au = 0, au_weight = 0, rate = 0, rate_weight = 0;
    for (const Block& block : rank.blocks) {
      const DlioBlock figures =
          dlio_block(block, exclude_start, exclude_end, epoch.steps, batch_size);
      const auto steps = static_cast<double>(figures.steps);
      au += figures.au.value.value_or(0) * steps;
      au_weight += figures.au.value ? steps : 0;
      rate += figures.samples_per_second.value.value_or(0) * steps;
      rate_weight += figures.samples_per_second.value ? steps : 0;
    }
    if (au_weight > 0) au_sum += au / au_weight;
    if (rate_weight > 0) rate_sum += rate / rate_weight;
    au_ranks += au_weight > 0 ? 1 : 0;
    rate_ranks += rate_weight > 0 ? 1 : 0;
  }
  epoch.dlio_au = au_ranks > 0 ? Figure::of(au_sum / static_cast<double>(au_ranks))
                               : Figure::none("every step is excluded");
  // Without a compute time there is no utilisation, whoever defines it.
  if (epoch.included_steps > 0 && !epoch.au.value) epoch.dlio_au = Figure::none(epoch.au.reason);
  epoch.dlio_samples_per_second =
      rate_ranks > 0 ? Figure::of(rate_sum) : Figure::none("every step is excluded");
}

void summarise_epoch(EpochResult& epoch, bool has_compute, bool has_barrier) {
  epoch.split = {};
  double au = 0, seconds = 0, busy_ranks = 0;
  for (const RankEpoch& rank : epoch.ranks) {
    epoch.split.add(rank.split, 1.0 / static_cast<double>(epoch.ranks.size()));
    seconds = std::max(seconds, rank.included_seconds);
    if (rank.included_seconds <= 0) continue;  // no step of its own in an uneven evaluation
    au += rank.compute_seconds / rank.included_seconds;
    ++busy_ranks;
  }
  epoch.critical = critical_of(epoch, has_barrier);
  epoch.cpu_seconds_per_gb = per_gb(epoch.cpu_seconds, epoch.file_bytes);
  if (epoch.included_steps == 0 || seconds <= 0) {
    const std::string why = epoch.steps == 0
                                ? "no step was finished"
                                : "every step is excluded (output.metric.exclude_start_steps, "
                                  "exclude_end_steps)";
    epoch.au = epoch.samples_per_second = Figure::none(why);
    epoch.file_bytes_per_second = epoch.payload_bytes_per_second = Figure::none(why);
    return;
  }
  epoch.au = has_compute ? Figure::of(au / busy_ranks)
                         : Figure::none("no compute time (train.computation_time is 0)");
  double samples = 0, file_bytes = 0, payload_bytes = 0;
  for (const RankEpoch& rank : epoch.ranks) {
    samples += static_cast<double>(rank.included_samples);
    file_bytes += static_cast<double>(rank.included_file_bytes);
    payload_bytes += static_cast<double>(rank.included_payload_bytes);
  }
  epoch.samples_per_second = Figure::of(samples / seconds);
  epoch.file_bytes_per_second = Figure::of(file_bytes / seconds);
  epoch.payload_bytes_per_second = Figure::of(payload_bytes / seconds);
}

void summarise_run(RunResult& result) {
  std::vector<double> au, samples, file_bytes, payload_bytes, dlio_au, dlio_samples, saves,
      restores;
  const auto take = [](const Figure& figure, std::vector<double>& into) {
    if (figure.value) into.push_back(*figure.value);
  };
  std::string reason = "no epoch was finished";
  uint64_t bytes = 0, device = 0;
  bool device_known = true;
  result.split = {};
  result.critical = {};
  const bool has_whole_epoch = std::any_of(
      result.epochs.begin(), result.epochs.end(),
      [](const EpochResult& epoch) { return !epoch.is_evaluation && epoch.is_complete; });
  for (const EpochResult& epoch : result.epochs) {
    result.read_ns.merge(epoch.read_ns);
    if (epoch.is_evaluation) continue;
    // An epoch that was torn off says less than whole ones; alone it is all there is.
    if (epoch.is_complete || !has_whole_epoch) {
      if (!epoch.au.value) reason = epoch.au.reason;
      take(epoch.au, au);
      take(epoch.samples_per_second, samples);
      take(epoch.file_bytes_per_second, file_bytes);
      take(epoch.payload_bytes_per_second, payload_bytes);
      take(epoch.dlio_au, dlio_au);
      take(epoch.dlio_samples_per_second, dlio_samples);
    }
    result.split.add(epoch.split, 1);
    result.critical.add(epoch.critical, 1);
    bytes += epoch.file_bytes;
    device += epoch.device_bytes.value_or(0);
    device_known = device_known && epoch.device_bytes.has_value();
  }
  for (const CheckpointRecord& save : result.checkpoints) saves.push_back(save.seconds);
  for (const CheckpointRecord& restore : result.restores) restores.push_back(restore.seconds);
  result.au = spread_of(au, reason);
  result.samples_per_second = spread_of(samples, reason);
  result.file_bytes_per_second = spread_of(file_bytes, reason);
  result.payload_bytes_per_second = spread_of(payload_bytes, reason);
  result.dlio_au = spread_of(dlio_au, reason);
  result.dlio_samples_per_second = spread_of(dlio_samples, reason);
  result.checkpoint_seconds = spread_of(saves, "no checkpoint was written");
  result.restore_seconds = spread_of(restores, "no checkpoint was restored");
  result.save_stall_seconds =
      over_ranks(result.checkpoints, [](const RankCheckpoint& rank) { return rank.stalled; });
  result.save_durable_seconds =
      over_ranks(result.checkpoints, [](const RankCheckpoint& rank) { return rank.durable; });
  result.save_drain_seconds =
      over_ranks(result.checkpoints, [](const RankCheckpoint& rank) { return rank.drained; });
  result.restore_rank_seconds =
      over_ranks(result.restores, [](const RankCheckpoint& rank) { return rank.seconds; });
  result.cpu_seconds_per_gb = per_gb(result.cpu_seconds, bytes);
  if (bytes == 0)
    result.cached_share = Figure::none("no bytes were read");
  else if (!device_known)
    result.cached_share =
        Figure::none(result.epochs.empty() ? "not measured" : result.epochs[0].cached_share.reason);
  else
    result.cached_share =
        Figure::of(1 - std::min(1.0, static_cast<double>(device) / static_cast<double>(bytes)));
}

}  // namespace forebay::emulate
