#include "emulate/epoch_part.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "emulate/packing.h"

namespace forebay::emulate {
namespace {

constexpr size_t kBadRecordsMax = 100;

void put(Packer& packer, const trace::Histogram& histogram) {
  packer.put_all(histogram.to_words());
}

Status get(Unpacker& unpacker, trace::Histogram& histogram) {
  std::vector<uint64_t> words;
  unpacker.get_all(words);
  auto made = trace::Histogram::from_words(words);
  if (!made) return fail(ErrorCode::kCorruption, "a histogram of another process is damaged");
  histogram = *std::move(made);
  return {};
}

template <class T>
void put_optional(Packer& packer, const std::optional<T>& value) {
  packer.put<uint8_t>(value ? 1 : 0);
  packer.put(value.value_or(T{}));
}

template <class T>
void get_optional(Unpacker& unpacker, std::optional<T>& value) {
  uint8_t is_there = 0;
  T found{};
  unpacker.get(is_there);
  unpacker.get(found);
  if (is_there != 0) value = found;
}

// All but the blocks.
void put(Packer& packer, const RankEpoch& rank) {
  packer.put(rank.split);
  packer.put(rank.last);
  packer.put(rank.included_seconds);
  packer.put(rank.compute_seconds);
  packer.put(rank.included_samples);
  packer.put(rank.included_file_bytes);
  packer.put(rank.included_payload_bytes);
}

void get(Unpacker& unpacker, RankEpoch& rank) {
  unpacker.get(rank.split);
  unpacker.get(rank.last);
  unpacker.get(rank.included_seconds);
  unpacker.get(rank.compute_seconds);
  unpacker.get(rank.included_samples);
  unpacker.get(rank.included_file_bytes);
  unpacker.get(rank.included_payload_bytes);
}

void put(Packer& packer, const CheckpointRecord& record) {
  packer.put(record.epoch);
  packer.put(record.step);
  packer.put(record.bytes);
  packer.put(record.start);
  packer.put(record.end);
  packer.put(record.seconds);
  packer.put(record.is_synced);
  packer.put(record.path);
}

void get(Unpacker& unpacker, CheckpointRecord& record) {
  unpacker.get(record.epoch);
  unpacker.get(record.step);
  unpacker.get(record.bytes);
  unpacker.get(record.start);
  unpacker.get(record.end);
  unpacker.get(record.seconds);
  unpacker.get(record.is_synced);
  unpacker.get(record.path);
}

void put(Packer& packer, const sys::Host& host) {
  packer.put(host.name);
  packer.put(host.kernel);
  packer.put(host.cpu_model);
  packer.put(host.cpu_count);
  packer.put(host.cpu_count_online);
  packer.put(host.memory_bytes);
  packer.put(host.memory_limit_bytes);
  packer.put(host.is_governor_powersave);
}

void get(Unpacker& unpacker, sys::Host& host) {
  unpacker.get(host.name);
  unpacker.get(host.kernel);
  unpacker.get(host.cpu_model);
  unpacker.get(host.cpu_count);
  unpacker.get(host.cpu_count_online);
  unpacker.get(host.memory_bytes);
  unpacker.get(host.memory_limit_bytes);
  unpacker.get(host.is_governor_powersave);
}

void put(Packer& packer, const std::map<std::string, std::string>& texts) {
  packer.put<uint64_t>(texts.size());
  for (const auto& [key, value] : texts) {
    packer.put(key);
    packer.put(value);
  }
}

void get(Unpacker& unpacker, std::map<std::string, std::string>& texts) {
  const size_t count = unpacker.count();
  for (size_t i = 0; i < count; ++i) {
    std::string key;
    unpacker.get(key);
    unpacker.get(texts[key]);
  }
}

// The row of the host `name`, made when there is none.
template <class Row, class NameOf>
Row& row_of(std::vector<Row>& rows, const std::string& name, NameOf name_of) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](Row& row) { return name_of(row) == name; });
  if (found != rows.end()) return *found;
  name_of(rows.emplace_back()) = name;
  return rows.back();
}

Figure share_from_cache(uint64_t file_bytes, const std::optional<uint64_t>& device_bytes,
                        const std::string& why_unknown, const std::string& why_no_bytes) {
  if (!device_bytes) return Figure::none(why_unknown);
  if (file_bytes == 0) return Figure::none(why_no_bytes);
  const double device = static_cast<double>(*device_bytes);
  return Figure::of(1 - std::min(1.0, device / static_cast<double>(file_bytes)));
}

void add_to_host(HostEpoch& host, const EpochPart& part, std::optional<std::string>& unknown) {
  ++host.processes;
  host.accelerators += static_cast<int>(part.totals.size());
  host.cpu_seconds += part.cpu_seconds;
  for (const RankTotals& totals : part.totals) host.file_bytes += totals.file_bytes;
  host.meminfo = part.meminfo;
  if (!part.device_bytes)
    unknown = part.device_unknown;
  else
    host.device_bytes = host.device_bytes.value_or(0) + *part.device_bytes;
  if (!part.network) return;
  host.network_received_bytes = part.network->received;
  host.network_sent_bytes = part.network->sent;
}

void merge_hosts(const std::vector<EpochPart>& parts, std::span<const std::string> hosts,
                 EpochResult& result) {
  std::optional<std::string> unknown;
  const std::string why_no_bytes = parts.empty() ? "" : parts[0].why_no_bytes;
  for (const EpochPart& part : parts) {
    std::optional<std::string> unknown_here;
    HostEpoch& host = row_of(result.hosts, hosts[static_cast<size_t>(part.rank)],
                             [](HostEpoch& row) -> std::string& { return row.name; });
    add_to_host(host, part, unknown_here);
    if (unknown_here) unknown = unknown_here;
  }
  for (HostEpoch& host : result.hosts) {
    if (unknown) host.device_bytes.reset();
    host.cached_share =
        share_from_cache(host.file_bytes, host.device_bytes, unknown.value_or(""), why_no_bytes);
    if (host.device_bytes)
      result.device_bytes = result.device_bytes.value_or(0) + *host.device_bytes;
  }
  result.cached_share = share_from_cache(result.file_bytes, result.device_bytes,
                                         unknown.value_or("not measured"), why_no_bytes);
}

}  // namespace

std::string pack(const EpochPart& part) {
  Packer packer;
  packer.put(part.rank);
  packer.put(part.epoch);
  packer.put(part.is_evaluation);
  packer.put(part.start);
  packer.put(part.end);
  packer.put_all(part.totals);
  packer.put<uint64_t>(part.ranks.size());
  for (const RankEpoch& rank : part.ranks) put(packer, rank);
  packer.put<uint64_t>(part.checkpoints.size());
  for (const CheckpointRecord& record : part.checkpoints) put(packer, record);
  packer.put(part.cpu_seconds);
  put_optional(packer, part.device_bytes);
  packer.put(part.device_unknown);
  packer.put(part.why_no_bytes);
  put_optional(packer, part.network);
  packer.put(part.bad_count);
  put(packer, part.read_ns);
  put(packer, part.meminfo);
  return packer.take();
}

Result<EpochPart> unpack_epoch_part(std::string_view bytes) {
  Unpacker unpacker(bytes);
  EpochPart part;
  unpacker.get(part.rank);
  unpacker.get(part.epoch);
  unpacker.get(part.is_evaluation);
  unpacker.get(part.start);
  unpacker.get(part.end);
  unpacker.get_all(part.totals);
  part.ranks.resize(unpacker.count());
  for (RankEpoch& rank : part.ranks) get(unpacker, rank);
  part.checkpoints.resize(unpacker.count());
  for (CheckpointRecord& record : part.checkpoints) get(unpacker, record);
  unpacker.get(part.cpu_seconds);
  get_optional(unpacker, part.device_bytes);
  unpacker.get(part.device_unknown);
  unpacker.get(part.why_no_bytes);
  get_optional(unpacker, part.network);
  unpacker.get(part.bad_count);
  FB_TRY(get(unpacker, part.read_ns));
  get(unpacker, part.meminfo);
  FB_TRY(unpacker.done());
  return part;
}

std::string pack_blocks(const EpochPart& part) {
  Packer packer;
  packer.put<uint64_t>(part.ranks.size());
  for (const RankEpoch& rank : part.ranks) {
    packer.put<uint64_t>(rank.blocks.size());
    for (const Block& block : rank.blocks) {
      packer.put(block.start);
      packer.put(block.end);
      packer.put_all(block.load);
      packer.put_all(block.compute);
      packer.put_all(block.proc);
      packer.put_all(block.splits);
    }
  }
  return packer.take();
}

Status unpack_blocks(std::string_view bytes, EpochPart& part) {
  Unpacker unpacker(bytes);
  if (unpacker.count() != part.ranks.size())
    return fail(ErrorCode::kCorruption, "figures of another process do not belong together");
  for (RankEpoch& rank : part.ranks) {
    rank.blocks.resize(unpacker.count());
    for (Block& block : rank.blocks) {
      unpacker.get(block.start);
      unpacker.get(block.end);
      unpacker.get_all(block.load);
      unpacker.get_all(block.compute);
      unpacker.get_all(block.proc);
      unpacker.get_all(block.splits);
    }
  }
  return unpacker.done();
}

EpochResult merge(std::vector<EpochPart> parts, StepRange included,
                  std::span<const std::string> hosts) {
  EpochResult result;
  result.is_evaluation = !parts.empty() && parts[0].is_evaluation;
  result.epoch = parts.empty() ? 0 : parts[0].epoch;
  result.start = parts.empty() ? 0 : parts[0].start;
  result.steps = result.is_evaluation || parts.empty() ? 0 : UINT64_MAX;
  for (EpochPart& part : parts) {
    result.start = std::min(result.start, part.start);
    result.end = std::max(result.end, part.end);
    result.cpu_seconds += part.cpu_seconds;
    result.read_ns.merge(part.read_ns);
    for (const RankTotals& totals : part.totals) {
      result.steps = result.is_evaluation ? std::max(result.steps, totals.steps)
                                          : std::min(result.steps, totals.steps);
      result.samples += totals.samples;
      result.skipped_samples += totals.skipped;
      result.file_bytes += totals.file_bytes;
      result.payload_bytes += totals.payload_bytes;
    }
  }
  merge_hosts(parts, hosts, result);
  for (EpochPart& part : parts)
    std::move(part.ranks.begin(), part.ranks.end(), std::back_inserter(result.ranks));
  const uint64_t last = std::min(included.last, result.steps);
  result.included_steps = last > included.first ? last - included.first : 0;
  return result;
}

std::string pack(const RunPart& part) {
  Packer packer;
  packer.put(part.rank);
  packer.put(part.accelerators);
  put(packer, part.host);
  put(packer, part.cpuinfo);
  put(packer, part.meminfo);
  packer.put(part.cpu_seconds);
  packer.put(part.peak_resident_bytes);
  packer.put(part.open_files_max);
  packer.put(part.threads_max);
  packer.put(part.bad_count);
  packer.put(part.read_retries);
  packer.put<uint64_t>(part.bad_records.size());
  for (const BadRecordNote& note : part.bad_records) {
    packer.put(note.path);
    packer.put(note.cause);
  }
  packer.put_all(part.warnings);
  packer.put(part.first_batch_seconds);
  return packer.take();
}

Result<RunPart> unpack_run_part(std::string_view bytes) {
  Unpacker unpacker(bytes);
  RunPart part;
  unpacker.get(part.rank);
  unpacker.get(part.accelerators);
  get(unpacker, part.host);
  get(unpacker, part.cpuinfo);
  get(unpacker, part.meminfo);
  unpacker.get(part.cpu_seconds);
  unpacker.get(part.peak_resident_bytes);
  unpacker.get(part.open_files_max);
  unpacker.get(part.threads_max);
  unpacker.get(part.bad_count);
  unpacker.get(part.read_retries);
  part.bad_records.resize(unpacker.count());
  for (BadRecordNote& note : part.bad_records) {
    unpacker.get(note.path);
    unpacker.get(note.cause);
  }
  unpacker.get_all(part.warnings);
  unpacker.get(part.first_batch_seconds);
  FB_TRY(unpacker.done());
  return part;
}

void merge(const std::vector<RunPart>& parts, RunResult& result) {
  const size_t known = result.warnings.size();
  for (const RunPart& part : parts) {
    HostResult& host = row_of(result.hosts, part.host.name,
                              [](HostResult& row) -> std::string& { return row.host.name; });
    // A launcher may bind each process to CPUs of its own.
    const int cpus = std::min(host.host.cpu_count + part.host.cpu_count,
                              std::max(part.host.cpu_count_online, part.host.cpu_count));
    host.host = part.host;
    host.cpuinfo = part.cpuinfo;
    host.meminfo = part.meminfo;
    if (!host.processes.empty()) host.host.cpu_count = cpus;
    host.processes.push_back(part.rank);
    host.accelerators += part.accelerators;
    host.cpu_seconds += part.cpu_seconds;
    host.peak_resident_bytes += part.peak_resident_bytes;
    result.cpu_seconds += part.cpu_seconds;
    result.peak_resident_bytes += part.peak_resident_bytes;
    result.open_files_max = std::max(result.open_files_max, part.open_files_max);
    result.threads_max = std::max(result.threads_max, part.threads_max);
    result.bad_count += part.bad_count;
    result.read_retries += part.read_retries;
    for (const BadRecordNote& note : part.bad_records)
      if (result.bad_records.size() < kBadRecordsMax) result.bad_records.push_back(note);
    if (part.first_batch_seconds > 0 &&
        (result.start_to_first_batch_seconds == 0 ||
         part.first_batch_seconds < result.start_to_first_batch_seconds))
      result.start_to_first_batch_seconds = part.first_batch_seconds;
    const auto end = result.warnings.begin() + static_cast<int64_t>(known);
    std::vector<std::string> more;
    for (const std::string& warning : part.warnings)
      if (std::find(result.warnings.begin(), end, warning) == end)
        more.push_back(fmt::format("rank {} on {}: {}", part.rank, part.host.name, warning));
    result.warnings.insert(result.warnings.end(), more.begin(), more.end());
  }
  for (HostResult& host : result.hosts) {
    bool is_known = !result.epochs.empty();
    std::string why = "no epoch was measured";
    for (const EpochResult& epoch : result.epochs)
      for (const HostEpoch& row : epoch.hosts) {
        if (row.name != host.host.name) continue;
        host.file_bytes += row.file_bytes;
        is_known = is_known && row.device_bytes;
        if (!row.device_bytes) why = row.cached_share.reason;
        host.device_bytes = host.device_bytes.value_or(0) + row.device_bytes.value_or(0);
        if (row.network_received_bytes)
          host.network_received_bytes =
              host.network_received_bytes.value_or(0) + *row.network_received_bytes;
        if (row.network_sent_bytes)
          host.network_sent_bytes = host.network_sent_bytes.value_or(0) + *row.network_sent_bytes;
      }
    if (!is_known) host.device_bytes.reset();
    host.cached_share =
        share_from_cache(host.file_bytes, host.device_bytes, why, "no bytes were read");
  }
}

}  // namespace forebay::emulate
