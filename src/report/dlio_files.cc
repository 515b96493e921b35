#include "report/dlio_files.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "emulate/metrics.h"
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
Json mean(const emulate::Spread& s, double factor = 1) {
  return s.mean ? number(*s.mean * factor) : Json(nullptr);
}
// numpy's std, which DLIO prints: over n, and 0 for one value.
Json deviation(const emulate::Spread& s, double factor = 1) {
  if (s.n == 0) return nullptr;
  if (!s.stdev) return 0.0;
  const auto n = static_cast<double>(s.n);
  return number(*s.stdev * std::sqrt((n - 1) / n) * factor);
}

// Local time as DLIO writes it, `seconds` after the run began.
class Clock {
 public:
  explicit Clock(const RunResult& result) : start_(result.started_unix_seconds) {}
  std::string at(double seconds) const {
    const double when = start_ + seconds;
    const auto time = static_cast<std::time_t>(std::floor(when));
    std::tm parts{};
    localtime_r(&time, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    return fmt::format("{}.{:06}", text, static_cast<int>((when - std::floor(when)) * 1e6));
  }

 private:
  double start_;
};

Json span(const Clock& clock, double start, double end) {
  return Json{{"start", clock.at(start)},
              {"end", clock.at(end)},
              {"duration", fmt::format("{:.2f}", end - start)}};
}

Json string_map(const std::map<std::string, std::string>& values) {
  Json json = Json::object();
  for (const auto& [key, value] : values) json[key] = value;
  return json;
}

double host_memory_gib(const RunResult& result) {
  return static_cast<double>(result.host.memory_bytes) / (1024.0 * kMebi);
}

// The nominal size of a sample, which DLIO's MB/s stand on.
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

Json summary(const RunResult& result, const Clock& clock) {
  const workload::Workload& workload = result.resolved.workload;
  Json metric;
  Json au = Json::array(), throughput = Json::array();
  std::vector<double> evals, eval_au;
  for (const EpochResult& epoch : result.epochs) {
    if (epoch.is_evaluation) {
      if (epoch.samples_per_second.value) evals.push_back(*epoch.samples_per_second.value);
      if (epoch.dlio_au.value) eval_au.push_back(100 * *epoch.dlio_au.value);
      continue;
    }
    au.push_back(figure(epoch.dlio_au, 100));
    throughput.push_back(figure(epoch.dlio_samples_per_second));
  }
  const double record_mib = record_bytes(workload.dataset) / kMebi;
  if (workload.workflow.train) {
    metric["train_au_percentage"] = au;
    metric["train_au_mean_percentage"] = mean(result.dlio_au, 100);
    metric["train_au_stdev_percentage"] = deviation(result.dlio_au, 100);
    metric["train_au_meet_expectation"] = !result.dlio_au.mean ? Json(nullptr)
                                          : *result.dlio_au.mean >= workload.metric.au
                                              ? Json("success")
                                              : Json("fail");
    metric["train_throughput_samples_per_second"] = throughput;
    metric["train_throughput_mean_samples_per_second"] = mean(result.dlio_samples_per_second);
    metric["train_throughput_stdev_samples_per_second"] = deviation(result.dlio_samples_per_second);
    metric["train_io_mean_MB_per_second"] = mean(result.dlio_samples_per_second, record_mib);
    metric["train_io_stdev_MB_per_second"] = deviation(result.dlio_samples_per_second, record_mib);
  }
  if (workload.workflow.evaluation) {
    const emulate::Spread rate = emulate::spread_of(evals, "no evaluation was finished");
    const emulate::Spread busy = emulate::spread_of(eval_au, "no evaluation was finished");
    metric["eval_au_percentage"] = eval_au;
    metric["eval_au_mean_percentage"] = mean(busy);
    metric["eval_au_stdev_percentage"] = deviation(busy);
    metric["eval_throughput_samples_per_second"] = evals;
    metric["eval_throughput_mean_samples_per_second"] = mean(rate);
    metric["eval_throughput_stdev_samples_per_second"] = deviation(rate);
    metric["eval_io_mean_MB_per_second"] = mean(rate, record_mib);
    metric["eval_io_stdev_MB_per_second"] = deviation(rate, record_mib);
  }
  if (!result.checkpoints.empty()) {
    std::vector<double> rates;
    for (const auto& save : result.checkpoints)
      rates.push_back(static_cast<double>(save.bytes) / (1024 * kMebi) / save.seconds);
    const emulate::Spread rate = emulate::spread_of(rates, "");
    metric["save_checkpoint_io_mean_GB_per_second"] = mean(rate);
    metric["save_checkpoint_io_stdev_GB_per_second"] = deviation(rate);
    metric["save_checkpoint_duration_mean_seconds"] = mean(result.checkpoint_seconds);
    metric["save_checkpoint_duration_stdev_seconds"] = deviation(result.checkpoint_seconds);
    metric["checkpoint_size_GB"] =
        static_cast<double>(result.checkpoints[0].bytes) / (1024 * kMebi);
  }
  const double data_gib = static_cast<double>(result.dataset.bytes) / (1024 * kMebi);
  Json json;
  json["start"] = clock.at(0);
  json["end"] = clock.at(result.wall_seconds);
  json["num_accelerators"] = result.options.accelerators;
  json["num_hosts"] = 1;
  json["hostname"] = result.host.name;
  json["metric"] = metric;
  json["num_files_train"] = result.dataset.files;
  json["num_files_eval"] = result.evaluation_dataset.files;
  json["num_samples_per_file"] = workload.dataset.num_samples_per_file;
  json["host_cpu_count"] = {result.host.cpu_count_online};
  json["host_processor_name"] = result.host.cpu_model;
  json["potential_caching"] = {data_gib <= host_memory_gib(result) ? 1 : 0};
  json["host_cpuinfo"] = string_map(sys::cpuinfo());
  json["host_meminfo"] = string_map(sys::meminfo());
  json["host_memory_GB"] = {host_memory_gib(result)};
  json["data_size_per_host_GB"] = data_gib;
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
  if (rank != 0) return json;
  std::map<uint64_t, int> saves;
  for (const auto& save : result.checkpoints) {
    Json entry{
        {"start", clock.at(save.start)},
        {"end", clock.at(save.end)},
        {"duration", save.seconds},
        {"throughput", number(static_cast<double>(save.bytes) / (1024 * kMebi) / save.seconds)}};
    json[std::to_string(save.epoch)][fmt::format("save_ckpt{}", ++saves[save.epoch])] = entry;
  }
  return json;
}

Json rank_output(const RunResult& result, const Clock& clock, size_t rank) {
  const workload::Workload& workload = result.resolved.workload;
  Json json;
  json["host_memory_GB"] = host_memory_gib(result);
  json["host_cpu_count"] = result.host.cpu_count_online;
  json["host_processor_name"] = result.host.cpu_model;
  json["potential_caching"] = result.dataset.bytes <= result.host.memory_bytes ? 1 : 0;
  json["host_cpuinfo"] = string_map(sys::cpuinfo());
  json["host_meminfo"] = string_map(sys::meminfo());
  json["hostname"] = result.host.name;
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
