#include "emulate/epoch_part.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "emulate/packing.h"

namespace forebay::emulate {
namespace {

constexpr size_t kBadRecordsMax = 100;

template <class T, class Plain>
concept Is = std::is_same_v<std::remove_const_t<T>, Plain>;

// What of each struct goes to another process: packed and unpacked in this order.
template <Is<Block> T>
void fields(T& block, auto& each) {
  each(block.start, block.end, block.load, block.compute, block.proc, block.splits);
}
template <Is<RankEpoch> T>  // all but the blocks
void fields(T& rank, auto& each) {
  each(rank.split, rank.last, rank.included_seconds, rank.compute_seconds, rank.included_samples,
       rank.included_file_bytes, rank.included_payload_bytes);
}
template <Is<sys::Host> T>
void fields(T& host, auto& each) {
  each(host.name, host.kernel, host.cpu_model, host.cpu_count, host.cpu_count_online,
       host.memory_bytes, host.memory_limit_bytes, host.is_governor_powersave);
}
template <Is<BadRecordNote> T>
void fields(T& note, auto& each) {
  each(note.path, note.cause);
}
template <Is<EpochPart> T>
void fields(T& part, auto& each) {
  each(part.rank, part.epoch, part.is_evaluation, part.start, part.end, part.totals, part.ranks,
       part.cpu_seconds, part.device_bytes, part.device_unknown, part.why_no_bytes, part.network,
       part.bad_count, part.read_ns, part.meminfo);
}
template <Is<RunPart> T>
void fields(T& part, auto& each) {
  each(part.rank, part.accelerators, part.host, part.cpuinfo, part.meminfo, part.cpu_seconds,
       part.peak_resident_bytes, part.open_files_max, part.threads_max, part.bad_count,
       part.read_retries, part.bad_records, part.warnings, part.first_batch_seconds);
}

class Writing {
 public:
  void operator()(const auto&... values) { (put(values), ...); }
  std::string take() { return packer_.take(); }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_trivially_copyable_v<T>)
      packer_.put(value);
    else
      fields(value, *this);
  }
  void put(const std::string& text) { packer_.put(text); }
  void put(const trace::Histogram& histogram) { put(histogram.to_words()); }
  template <class T>
  void put(const std::optional<T>& value) {
    packer_.put<uint8_t>(value ? 1 : 0);
    put(value.value_or(T{}));
  }
  template <class T>
  void put(const std::vector<T>& values) {
    packer_.put<uint64_t>(values.size());
    for (const T& value : values) put(value);
  }
  void put(const std::map<std::string, std::string>& texts) {
    packer_.put<uint64_t>(texts.size());
    for (const auto& [key, value] : texts) (*this)(key, value);
  }

  Packer packer_;
};

class Reading {
 public:
  explicit Reading(std::string_view bytes) : unpacker_(bytes) {}
  void operator()(auto&... values) { (get(values), ...); }
  Status done() const {
    if (is_damaged_)
      return fail(ErrorCode::kCorruption, "a histogram of another process is damaged");
    return unpacker_.done();
  }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>)
      unpacker_.get(value);
    else
      fields(value, *this);
  }
  void get(std::string& text) { unpacker_.get(text); }
  void get(trace::Histogram& histogram) {
    std::vector<uint64_t> words;
    get(words);
    auto made = trace::Histogram::from_words(words);
    is_damaged_ = is_damaged_ || !made;
    if (made) histogram = *std::move(made);
  }
  template <class T>
  void get(std::optional<T>& value) {
    uint8_t is_there = 0;
    T found{};
    (*this)(is_there, found);
    if (is_there != 0) value = found;
  }
  template <class T>
  void get(std::vector<T>& values) {
    values.resize(unpacker_.count());
    for (T& value : values) get(value);
  }
  void get(std::map<std::string, std::string>& texts) {
    const size_t count = unpacker_.count();
    for (size_t i = 0; i < count; ++i) {
      std::string key;
      get(key);
      get(texts[key]);
    }
  }

  Unpacker unpacker_;
  bool is_damaged_ = false;
};

template <class Part>
std::string packed(const Part& part) {
  Writing writing;
  writing(part);
  return writing.take();
}

template <class Part>
Result<Part> unpacked(std::string_view bytes) {
  Reading reading(bytes);
  Part part;
  reading(part);
  FB_TRY(reading.done());
  return part;
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
  return packed(part);
}

Result<EpochPart> unpack_epoch_part(std::string_view bytes) {
  return unpacked<EpochPart>(bytes);
}

std::string pack_blocks(const EpochPart& part) {
  Writing writing;
  writing(uint64_t{part.ranks.size()});
  for (const RankEpoch& rank : part.ranks) writing(rank.blocks);
  return writing.take();
}

Status unpack_blocks(std::string_view bytes, EpochPart& part) {
  Reading reading(bytes);
  uint64_t count = 0;
  reading(count);
  if (count != part.ranks.size())
    return fail(ErrorCode::kCorruption, "figures of another process do not belong together");
  for (RankEpoch& rank : part.ranks) reading(rank.blocks);
  return reading.done();
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
  return packed(part);
}

Result<RunPart> unpack_run_part(std::string_view bytes) {
  return unpacked<RunPart>(bytes);
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
