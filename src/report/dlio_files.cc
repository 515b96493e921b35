#include "report/dlio_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "emulate/metrics.h"
#include "report/dlio_figures.h"
#include "report/dlio_log.h"
#include "sys/host.h"

namespace forebay::report {
namespace {

using Json = nlohmann::ordered_json;
using emulate::EpochResult;
using emulate::RunResult;

constexpr double kMebi = 1048576.0;

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}
Json figure(const emulate::Figure& f, double factor = 1) {
  return f.value ? number(*f.value * factor) : Json(nullptr);
}
Json optional(const std::optional<double>& value) {
  return value ? number(*value) : Json(nullptr);
}
Json list(const std::vector<std::optional<double>>& values) {
  Json json = Json::array();
  for (const std::optional<double>& value : values) json.push_back(optional(value));
  return json;
}
Json expectation(const std::optional<bool>& is_met) {
  return is_met ? Json(*is_met ? "success" : "fail") : Json(nullptr);
}

// Local time as DLIO writes it, `seconds` after the run began.
class Clock {
 public:
  explicit Clock(const RunResult& result) : start_(result.started_unix_seconds) {}
  std::string at(double seconds) const { return dlio_time(start_ + seconds); }

 private:
  double start_;
};

Json span(const Clock& clock, double start, double end) {
  return Json{{"start", clock.at(start)},
              {"end", clock.at(end)},
              {"duration", fmt::format("{:.2f}", end - start)}};
}

// null where nobody could tell.
Json string_map(const std::map<std::string, std::string>& values) {
  if (values.empty()) return nullptr;
  Json json = Json::object();
  for (const auto& [key, value] : values) json[key] = value;
  return json;
}

double memory_gib(const sys::Host& host) {
  return static_cast<double>(host.memory_bytes) / (1024.0 * kMebi);
}

std::vector<sys::Host> hosts_of(const RunResult& result) {
  std::vector<sys::Host> hosts;
  for (const emulate::HostResult& host : result.hosts) hosts.push_back(host.host);
  if (hosts.empty()) hosts.push_back(result.host);
  return hosts;
}

int process_of(const RunResult& result, size_t accelerator) {
  size_t next = 0;  // the first accelerator of the next process
  int process = 0;
  for (const int count : result.process_accelerators) {
    next += static_cast<size_t>(count);
    if (accelerator < next) return process;
    ++process;
  }
  return 0;
}

// Of a process; nullptr when it did not live to tell.
const emulate::HostResult* host_of(const RunResult& result, int process) {
  for (const emulate::HostResult& host : result.hosts)
    if (std::count(host.processes.begin(), host.processes.end(), process) > 0) return &host;
  return nullptr;
}

// Whether a host could keep its share of the data in memory, as DLIO counts it.
int may_cache(const RunResult& result, const sys::Host& host) {
  const size_t hosts = std::max<size_t>(1, result.hosts.size());
  return result.dataset.bytes / hosts <= host.memory_bytes ? 1 : 0;
}

Json metric(const RunResult& result) {
  const workload::Workload& workload = result.resolved.workload;
  const DlioFigures figures = dlio_figures(result);
  Json json = Json::object();
  const auto add = [&](const std::string& name, const DlioSpread& spread, const char* unit) {
    json[name + "_mean_" + unit] = optional(spread.mean);
    json[name + "_stdev_" + unit] = optional(spread.deviation);
  };
  if (workload.workflow.train) {
    json["train_au_percentage"] = list(figures.train_au);
    add("train_au", figures.train_au_percent, "percentage");
    json["train_au_meet_expectation"] = expectation(figures.train_meets);
    json["train_throughput_samples_per_second"] = list(figures.train_rate);
    add("train_throughput", figures.train_samples_per_second, "samples_per_second");
    add("train_io", figures.train_mib_per_second, "MB_per_second");
  }
  if (workload.workflow.evaluation) {
    json["eval_au_percentage"] = list(figures.eval_au);
    add("eval_au", figures.eval_au_percent, "percentage");
    json["eval_au_meet_expectation"] = expectation(figures.eval_meets);
    json["eval_throughput_samples_per_second"] = list(figures.eval_rate);
    add("eval_throughput", figures.eval_samples_per_second, "samples_per_second");
    add("eval_io", figures.eval_mib_per_second, "MB_per_second");
  }
  if (!result.checkpoints.empty()) {
    add("save_checkpoint_io", figures.save_gib_per_second, "GB_per_second");
    add("save_checkpoint_duration", figures.save_seconds, "seconds");
  }
  if (!result.restores.empty()) {
    add("load_checkpoint_io", figures.load_gib_per_second, "GB_per_second");
    add("load_checkpoint_duration", figures.load_seconds, "seconds");
  }
  if (result.state.bytes > 0)
    json["checkpoint_size_GB"] = static_cast<double>(result.state.bytes) / (1024 * kMebi);
  return json;
}

Json summary(const RunResult& result, const Clock& clock) {
  const workload::Workload& workload = result.resolved.workload;
  const std::vector<sys::Host> hosts = hosts_of(result);
  const double data_gib = static_cast<double>(result.dataset.bytes) / (1024 * kMebi);
  Json cpus = Json::array(), caching = Json::array(), memory = Json::array();
  for (const sys::Host& host : hosts) {
    cpus.push_back(host.cpu_count_online);
    caching.push_back(may_cache(result, host));
    memory.push_back(memory_gib(host));
  }
  Json json;
  json["start"] = clock.at(0);
  json["end"] = clock.at(result.wall_seconds);
  json["num_accelerators"] = result.options.accelerators;
  json["num_hosts"] = hosts.size();
  json["hostname"] = result.host.name;
  json["metric"] = metric(result);
  json["num_files_train"] = result.dataset.files;
  json["num_files_eval"] = result.evaluation_dataset.files;
  json["num_samples_per_file"] = workload.dataset.num_samples_per_file;
  json["host_cpu_count"] = cpus;
  json["host_processor_name"] = result.host.cpu_model;
  json["potential_caching"] = caching;
  const emulate::HostResult* first = host_of(result, 0);
  // A run that only made data has no figures of hosts; whoever writes this is process 0.
  json["host_cpuinfo"] = string_map(first != nullptr ? first->cpuinfo : sys::cpuinfo());
  json["host_meminfo"] = string_map(first != nullptr ? first->meminfo : sys::meminfo());
  json["host_memory_GB"] = memory;
  json["data_size_per_host_GB"] = data_gib / static_cast<double>(hosts.size());
  json["epochs"] = workload.train.epochs;
  return json;
}

Json per_epoch_stats(const RunResult& result, const Clock& clock, size_t rank) {
  Json json = Json::object();
  for (const EpochResult& epoch : result.epochs) {
    Json& entry = json[std::to_string(epoch.epoch)];
    if (epoch.is_evaluation) {
      entry["eval"] = span(clock, epoch.start, epoch.end);
      continue;
    }
    entry = span(clock, epoch.start, epoch.end);
    int number = 0;
    for (const emulate::Block& block : epoch.ranks.at(rank).blocks)
      entry[fmt::format("block{}", ++number)] = span(clock, block.start, block.end);
  }
  std::map<std::pair<uint64_t, bool>, int> numbers;
  for (const auto* records : {&result.checkpoints, &result.restores}) {
    for (const emulate::CheckpointRecord& record : *records) {
      const double seconds = dlio_checkpoint_seconds(record, rank);
      const int number_of_kind = ++numbers[{record.epoch, record.is_restore}];
      json[std::to_string(record.epoch)]
          [fmt::format("{}_ckpt{}", record.is_restore ? "load" : "save", number_of_kind)] =
              Json{{"start", clock.at(record.start)},
                   {"end", clock.at(record.start + seconds)},
                   {"duration", seconds},
                   {"throughput", number(dlio_checkpoint_rate(record, rank))}};
    }
  }
  return json;
}

// The machine that accelerator `rank` was on; null for what it did not live to tell.
Json rank_host(const RunResult& result, size_t rank) {
  const emulate::HostResult* host = host_of(result, process_of(result, rank));
  Json json;
  if (host == nullptr) {
    for (const char* name : {"host_memory_GB", "host_cpu_count", "host_processor_name",
                             "potential_caching", "host_cpuinfo", "host_meminfo", "hostname"})
      json[name] = nullptr;
    return json;
  }
  json["host_memory_GB"] = memory_gib(host->host);
  json["host_cpu_count"] = host->host.cpu_count_online;
  json["host_processor_name"] = host->host.cpu_model;
  json["potential_caching"] = may_cache(result, host->host);
  json["host_cpuinfo"] = string_map(host->cpuinfo);
  json["host_meminfo"] = string_map(host->meminfo);
  json["hostname"] = host->host.name;
  return json;
}

Json meminfo_of(const EpochResult& epoch, const std::string& host) {
  for (const emulate::HostEpoch& row : epoch.hosts)
    if (row.name == host) return string_map(row.meminfo);
  return nullptr;
}

Json rank_output(const RunResult& result, const Clock& clock, size_t rank) {
  const workload::Workload& workload = result.resolved.workload;
  const emulate::HostResult* host = host_of(result, process_of(result, rank));
  Json json = rank_host(result, rank);
  for (const EpochResult& epoch : result.epochs) {
    Json& entry = json[std::to_string(epoch.epoch)];
    int number = 0;
    for (const emulate::Block& block : epoch.ranks.at(rank).blocks) {
      const std::string name = epoch.is_evaluation ? "eval" : fmt::format("block{}", ++number);
      entry["load"][name] = block.load;
      entry["proc"][name] = block.proc;
      entry["compute"][name] = block.compute;
      if (epoch.is_evaluation) continue;
      const emulate::DlioBlock figures = emulate::dlio_block(
          block, workload.output.exclude_start_steps, workload.output.exclude_end_steps,
          epoch.steps, workload.reader.batch_size);
      entry["throughput"][name] = figure(figures.samples_per_second);
      entry["au"][name] = figure(figures.au, 100);
    }
    if (epoch.is_evaluation) continue;
    entry["host_meminfo"] = host != nullptr ? meminfo_of(epoch, host->host.name) : Json(nullptr);
    entry["start"] = clock.at(epoch.start);
    entry["end"] = clock.at(epoch.end);
  }
  return json;
}

std::string text_of(const Json& json) {
  return json.dump(4, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> dlio_files(const RunResult& result) {
  const Clock clock(result);
  std::vector<std::pair<std::string, std::string>> files;
  files.emplace_back("summary.json", text_of(summary(result, clock)));
  for (size_t rank = 0; rank < static_cast<size_t>(result.options.accelerators); ++rank) {
    files.emplace_back(fmt::format("{}_output.json", rank),
                       text_of(rank_output(result, clock, rank)));
    files.emplace_back(fmt::format("{}_per_epoch_stats.json", rank),
                       text_of(per_epoch_stats(result, clock, rank)));
  }
  return files;
}

}  // namespace forebay::report
