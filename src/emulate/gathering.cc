#include "emulate/gathering.h"

#include <fmt/core.h>

#include <utility>

#include "base/error.h"
#include "cluster/world.h"
#include "emulate/packing.h"
#include "sys/process.h"

namespace forebay::emulate {
namespace {

constexpr double kNano = 1e-9;
// How long process 0 waits for what others have measured. A launcher that asks for a stop kills
// soon after: mpirun 0.2 s later when a process has died. After a failure they notice within a
// tenth of a second.
constexpr double kStopGraceSeconds = 0.3, kStopQuietSeconds = 0.05, kFailureGraceSeconds = 3;

}  // namespace

Status Gathering::add(EpochPart part, const EpochBasis& basis, Status ended) {
  basis_ = basis;
  if (ended.ok()) ended = exchange(part);
  if (ended.ok()) return check_bad_count();
  unfinished_ = std::move(part);
  return ended;
}

// Every process gets every part; the long lists of steps go to process 0.
Status Gathering::exchange(const EpochPart& part) {
  std::vector<EpochPart> parts;
  if (run_.is_alone()) {
    parts.push_back(part);
  } else {
    const std::vector<std::string> all = FB_TRY(run_.world.gather(pack(part), run_.stop));
    const std::vector<std::string> blocks =
        FB_TRY(run_.world.gather_at_first(pack_blocks(part), run_.stop));
    for (size_t rank = 0; rank < all.size(); ++rank) {
      parts.push_back(FB_TRY(unpack_epoch_part(all[rank])));
      if (!blocks.empty()) FB_TRY(unpack_blocks(blocks[rank], parts.back()));
    }
  }
  bad_count_of_all_ = 0;
  for (const EpochPart& one : parts) bad_count_of_all_ += one.bad_count;
  add_epoch(std::move(parts), true);
  return {};
}

// Alone, the engines watch the allowance themselves.
Status Gathering::check_bad_count() const {
  if (run_.is_alone() || bad_count_of_all_ <= run_.options.errors_max) return {};
  return fail(ErrorCode::kResourceExhausted,
              "{} bad records in all processes together, --errors-max allows {}", bad_count_of_all_,
              run_.options.errors_max);
}

void Gathering::add_epoch(std::vector<EpochPart> parts, bool is_complete) {
  std::vector<bool> has_told(run_.hosts.size());
  for (const EpochPart& part : parts) has_told[static_cast<size_t>(part.rank)] = true;
  EpochResult result = merge(std::move(parts), basis_.included, run_.hosts);
  summarise_epoch(result, basis_.has_compute, basis_.has_barrier);
  dlio_epoch(result, basis_.included.first, basis_.steps - basis_.included.last, basis_.batch);
  result.is_complete = is_complete;
  keep_numbers(has_told, result);
  if (result.steps == 0) return;
  run_.result.epochs.push_back(std::move(result));
  run_.observer.on_epoch(run_.result, run_.result.epochs.back());
}

// Accelerators of processes that could not tell have an empty place, so that the others keep
// their numbers.
void Gathering::keep_numbers(const std::vector<bool>& has_told, EpochResult& result) const {
  int64_t first = 0;
  for (size_t rank = 0; rank < has_told.size(); ++rank) {
    const auto count = static_cast<size_t>(run_.accelerators_of[rank]);
    if (!has_told[rank]) result.ranks.insert(result.ranks.begin() + first, count, RankEpoch());
    first += static_cast<int64_t>(count);
  }
}

void Gathering::finish(Status ended) {
  fill_own_part();
  if (ended.ok()) ended = exchange_parts();
  if (!ended.ok()) end_early(ended);
  note_clocks();
}

void Gathering::fill_own_part() {
  run_.mine.rank = run_.world.rank();
  run_.mine.accelerators = run_.options.accelerators;
  run_.mine.host = run_.result.host;
  run_.mine.cpuinfo = sys::cpuinfo();
  run_.mine.meminfo = sys::meminfo();
  run_.mine.host.name = run_.world.host_of(run_.world.rank());
  run_.mine.cpu_seconds = sys::process_usage().cpu_seconds() - run_.start_usage.cpu_seconds();
  run_.mine.peak_resident_bytes = sys::peak_resident_bytes();
  run_.mine.warnings = run_.result.warnings;
}

Status Gathering::exchange_parts() {
  FB_TRY(run_.world.measure_clocks(run_.stop));
  const std::vector<std::string> all = FB_TRY(run_.world.gather(pack(run_.mine), run_.stop));
  std::vector<RunPart> parts;
  for (const std::string& text : all) parts.push_back(FB_TRY(unpack_run_part(text)));
  merge(parts, run_.result);
  return {};
}

// A failure or a stop: process 0 still takes what the others have measured, if they can say it.
void Gathering::end_early(const Status& status) {
  run_.world.fail(status.error());
  const std::optional<Error> failure = run_.world.failure();
  const Error& cause = failure ? *failure : status.error();
  const bool is_stop =
      cause.code == ErrorCode::kCancelled && (failure || run_.stop.stop_requested());
  if (is_stop)
    run_.result.is_interrupted = true;
  else
    run_.result.error = cause.message;
  const std::vector<std::optional<std::string>> words =
      is_stop
          ? run_.world.last_words(pack_last_words(), kStopGraceSeconds, kStopQuietSeconds)
          : run_.world.last_words(pack_last_words(), kFailureGraceSeconds, kFailureGraceSeconds);
  std::vector<RunPart> parts;
  std::vector<EpochPart> epoch;
  if (is_stop) run_.result.stopped_because = why_stopped(words, failure);
  for (size_t rank = 0; rank < words.size(); ++rank) {
    Status taken = fail(ErrorCode::kCancelled, "it did not answer any more");
    if (words[rank]) taken = take_last_words(*words[rank], parts, epoch);
    if (!taken.ok())
      run_.result.warnings.push_back(
          fmt::format("no figures of {}: {}", cluster::name_of(run_.world, static_cast<int>(rank)),
                      taken.error().message));
  }
  if (words.empty()) {  // process 0 has them
    parts.push_back(run_.mine);
    if (unfinished_) epoch.push_back(*std::move(unfinished_));
  }
  if (!epoch.empty()) add_epoch(std::move(epoch), false);
  merge(parts, run_.result);
}

// A launcher asks everybody to stop when it has lost a process, and tells nobody which.
std::string Gathering::why_stopped(const std::vector<std::optional<std::string>>& words,
                                   const std::optional<Error>& failure) const {
  constexpr int kNamed = 4;
  std::string lost;
  int count = 0;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank] || ++count > kNamed) continue;
    lost += (lost.empty() ? "" : ", ") + cluster::name_of(run_.world, static_cast<int>(rank));
  }
  if (count > kNamed) lost += fmt::format(" and {} more", count - kNamed);
  if (count > 0) return fmt::format("no answer from {}: killed, crashed or stuck", lost);
  // "rank 1 on host1: stopped while ..."
  const std::string who =
      failure ? failure->message.substr(0, failure->message.find(": ")) + " was " : "";
  return who + "asked to stop (Ctrl-C, SIGTERM or SIGHUP)";
}

std::string Gathering::pack_last_words() const {
  Packer packer;
  packer.put(pack(run_.mine));
  packer.put(unfinished_ ? pack(*unfinished_) : std::string());
  packer.put(unfinished_ ? pack_blocks(*unfinished_) : std::string());
  return packer.take();
}

// A process that was further or less far in the run has no part of this epoch.
Status Gathering::take_last_words(const std::string& text, std::vector<RunPart>& parts,
                                  std::vector<EpochPart>& epoch) const {
  std::string run, part, blocks;
  Unpacker unpacker(text);
  unpacker.get(run);
  unpacker.get(part);
  unpacker.get(blocks);
  FB_TRY(unpacker.done());
  parts.push_back(FB_TRY(unpack_run_part(run)));
  if (part.empty() || !unfinished_) return {};
  EpochPart unpacked = FB_TRY(unpack_epoch_part(part));
  if (unpacked.epoch != unfinished_->epoch || unpacked.is_evaluation != unfinished_->is_evaluation)
    return {};
  FB_TRY(unpack_blocks(blocks, unpacked));
  epoch.push_back(std::move(unpacked));
  return {};
}

void Gathering::note_clocks() {
  for (HostResult& host : run_.result.hosts) {
    const auto first = static_cast<size_t>(host.processes.front());
    const cluster::ClockOffset at_end = run_.world.clock_offset(host.processes.front());
    host.clock_offset_seconds = static_cast<double>(run_.offsets_at_start[first].ns) * kNano;
    host.clock_uncertainty_seconds =
        static_cast<double>(run_.offsets_at_start[first].uncertainty_ns) * kNano;
    host.clock_offset_seconds_at_end = static_cast<double>(at_end.ns) * kNano;
    host.clock_uncertainty_seconds_at_end = static_cast<double>(at_end.uncertainty_ns) * kNano;
  }
}

}  // namespace forebay::emulate
